// headlens completion bash|zsh: completion scripts, generated from the commands themselves.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

std::string join_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// One case a command path ("fit", "generate power-mean"): the words that may follow.
void bash_cases(const Command& app, const std::string& path, std::string& cases, std::string& values) {
  std::vector<std::string> words;
  for (const auto& command : app.commands()) words.push_back(command->name());
  for (const OptionEntry& option : app.options()) {
    if (option.positional) continue;
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (!option.choices.empty())
      values += fmt::format("    \"{}{}\") COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                            path.empty() ? "" : path + " ", option.names.back(), join_words(option.choices));
  }
  cases += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, join_words(words));
  for (const auto& command : app.commands())
    bash_cases(*command, path.empty() ? command->name() : path + " " + command->name(), cases, values);
}

std::string bash_script(const Command& app) {
  std::string cases, values, names;
  bash_cases(app, "", cases, values);
  for (const auto& command : app.commands()) {
    names += "|" + command->name();
    for (const auto& task : command->commands()) names += "|" + task->name();
  }
  return fmt::format(
      R"(# bash completion for headlens: source it, or put it in /usr/share/bash-completion/completions/headlens
_headlens() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i]}}" in
      {}) path="${{path:+$path }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "${{path:+$path }}$previous" in
{}  esac
  case "$path" in
{}  esac
  if [[ "$current" == -* || -z "$path" || "$path" == generate || "$path" == study || "$path" == theory ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _headlens headlens)",
      names.substr(1), values, cases);
}

std::string zsh_quote(std::string text) {
  for (const char special : {'\\', '[', ']', ':'})
    for (std::size_t at = 0; (at = text.find(special, at)) != std::string::npos; at += 2)
      text.insert(at, 1, '\\');
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return text;
}

std::string zsh_function(const Command& app, const std::string& function) {
  std::string arguments;
  for (const OptionEntry& option : app.options()) {
    if (option.positional) continue;
    const std::string value = option.value.empty() ? ""
                              : option.choices.empty()
                                  ? fmt::format(":{}:_files", zsh_quote(option.value))
                                  : fmt::format(":value:({})", join_words(option.choices));
    for (const std::string& name : option.names)
      arguments += fmt::format(" \\\n    '{}[{}]{}'", name, zsh_quote(option.description), value);
  }
  const auto& commands = app.commands();
  if (commands.empty())
    return fmt::format("{}() {{\n  _arguments{} \\\n    '*:file:_files'\n}}\n", function, arguments);
  std::string names, cases, functions;
  for (const auto& command : commands) {
    const std::string inner = function + "_" + command->name();
    names += fmt::format(" '{}:{}'", command->name(), zsh_quote(command->description()));
    cases += fmt::format("    {}) {} ;;\n", command->name(), inner);
    functions += zsh_function(*command, inner);
  }
  return functions + fmt::format(
                         "{}() {{\n  local state\n  local -a line commands=({})\n  _arguments -C{} \\\n"
                         "    '1: :->command' '*::argument:->argument'\n"
                         "  case $state in\n  command) _describe command commands ;;\n"
                         "  argument)\n    case $line[1] in\n{}    esac ;;\n  esac\n}}\n",
                         function, names, arguments, cases);
}

}  // namespace

void add_completion(Command& app) {
  auto shell = std::make_shared<std::string>();
  Command& command = app.add_command("completion", "Print a completion script for bash or zsh");
  command.add_positional("SHELL", *shell, "bash or zsh");
  command.set_footer(
      "Examples:\n"
      "  source <(headlens completion bash)\n"
      "  headlens completion zsh > \"${fpath[1]}/_headlens\"");
  command.set_action([&app, shell] {
    const std::string problem = unknown_choice(*shell, {"bash", "zsh"});
    require(problem.empty(), "SHELL: ", problem, " (see headlens completion --help)");
    const std::string script = *shell == "bash" ? bash_script(app)
                                                : "#compdef headlens\n" + zsh_function(app, "_headlens") +
                                                      "compdef _headlens headlens";
    fmt::print("{}\n", script);
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
