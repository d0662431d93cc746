#include "option_list.hpp"

#include "words.hpp"

namespace headlens::app {

std::vector<OptionEntry> options_of(const CLI::App& command) {
  std::vector<OptionEntry> entries;
  for (const CLI::Option* option : command.get_options()) {
    OptionEntry entry;
    entry.positional = option->get_positional();
    for (const auto& name : option->get_snames()) entry.names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) entry.names.push_back("--" + name);
    if (entry.positional) entry.names = {option->get_name(true)};
    if (option->get_type_size() != 0) entry.value = option->get_type_name();
    entry.choices = split_choices(entry.value);
    entry.description = option->get_description();
    entry.fallback = option->get_default_str();
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace headlens::app
