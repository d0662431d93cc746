// headlens options: every command with its options, and those of study files, as JSON. Not shown in help;
// scripts/write_options.py makes the tables of docs/command-line.md and docs/studies.md from the output.
#include <fmt/format.h>

#include "command.hpp"
#include "headlens/study.hpp"

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

Json study_file(StudyCommand command) {
  Json out = Json::array();
  for (const StudyOption& option : study_options(command))
    out.push_back({{"name", option.name}, {"help", option.help}, {"default", option.fallback}});
  return out;
}

}  // namespace

void add_options(Command& app) {
  Command& command = app.add_hidden_command("options", "Print every option of every command as JSON");
  command.set_action([&app] {
    Json out = Json::object();
    list(app, "", out);
    out["[fixed] fit"] = study_file(StudyCommand::fit);
    out["[fixed] recover"] = study_file(StudyCommand::recover);
    print_text(out.dump(2));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
