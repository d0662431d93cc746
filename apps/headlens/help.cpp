// headlens help [COMMAND [TASK]]: the same text as COMMAND --help.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

std::vector<std::string> names_of(const Command& command) {
  std::vector<std::string> names;
  for (const auto& inner : command.commands()) names.push_back(inner->name());
  return names;
}

}  // namespace

std::string unknown_command(const Command& command, const std::string& path, const std::string& word) {
  return join("'", word, "' is not a command of ", path, did_you_mean(word, names_of(command)));
}

void add_help(Command& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command& command = app.add_command("help", "Show the help of a command");
  command.add_positionals("COMMAND", *words, "command, and the task or part of it (default: all commands)",
                          Needed::no);
  command.set_footer("Example:\n  headlens help generate power-mean");
  command.set_action([&app, words] {
    const Command* at = &app;
    std::string path = "headlens";
    for (const std::string& word : *words) {
      const Command* inner = at->find(word);
      require(inner != nullptr, unknown_command(*at, path, word), " (see headlens help)");
      at = inner;
      path += " " + word;
    }
    fmt::print("{}", at->help(path));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
