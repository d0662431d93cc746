// headlens help [COMMAND [TASK]]: the same text as COMMAND --help.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "option_list.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

std::vector<std::string> names_of(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

}  // namespace

std::string unknown_command(CLI::App& app, const std::string& path, const std::string& word) {
  return join("'", word, "' is not a command of ", path, did_you_mean(word, names_of(app)));
}

void add_help(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& command = *app.add_subcommand("help", "Show the help of a command");
  command.add_option("COMMAND", *words, "command, and the task or part of it (default: all commands)");
  command.footer("Example:\n  headlens help generate power-mean");
  set_action(command, [&app, words] {
    CLI::App* at = &app;
    std::string path = "headlens";
    for (const std::string& word : *words) {
      const auto inner = at->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
      require(!inner.empty(), unknown_command(*at, path, word), " (see headlens help)");
      at = inner.front();
      path += " " + word;
    }
    fmt::print("{}", at->get_formatter()->make_help(at, path, CLI::AppFormatMode::Normal));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
