// headlens options: every command with its options, as JSON. Not shown in help; scripts/write_options.py
// makes the tables of docs/command-line.md from it.
#include <fmt/format.h>

#include "command.hpp"

namespace headlens::app {
namespace {

void list(const Command& command, const std::string& path, Json& out) {
  Json options = Json::array();
  for (const OptionEntry& option : command.options())
    if (!option.positional)
      options.push_back({{"names", option.names},
                         {"value", option.value},
                         {"help", option.description},
                         {"more", option.more},
                         {"default", option.fallback},
                         {"unset", option.unset},
                         {"required", option.required}});
  if (command.commands().empty()) out[path] = options;
  for (const auto& inner : command.commands())
    list(*inner, path.empty() ? inner->name() : path + " " + inner->name(), out);
}

}  // namespace

void add_options(Command& app) {
  Command& command = app.add_hidden_command("options", "Print every option of every command as JSON");
  command.set_action([&app] {
    Json out = Json::object();
    list(app, "", out);
    print_text(out.dump(2));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
