// The only file that knows CLI11.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sstream>

#include "cli.hpp"
#include "headlens/error.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

int g_status = 0;  // of the action that ran

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> out;
  std::istringstream text(names);
  for (std::string name; std::getline(text, name, ',');) out.push_back(name);
  return out;
}

std::string line_of(const OptionInfo& info, bool negated) {
  const std::string help = (negated ? "do not " : "") + info.help.spelled(on_command_line);
  const bool silent = info.unset.empty() || info.unset == "none";
  return silent ? help : fmt::format("{} (default: {})", help, info.unset);
}

// A word by either case of its letters.
void read_option(const OptionInfo& info, const Command::Reader& read, std::string text) {
  if (!info.choices.empty()) {
    text = CLI::detail::to_lower(text);
    const std::string problem = unknown_choice(text, info.choices);
    if (!problem.empty()) throw CLI::ValidationError("--" + info.name, problem);
  }
  try {
    read(text);
  } catch (const Error& error) {
    throw CLI::ValidationError(error.text().spelled(on_command_line));
  }
}

}  // namespace

struct Command::Parser {
  std::unique_ptr<CLI::App> owned;  // of the program itself
  CLI::App* app = nullptr;

  CLI::Option& add(const std::string& names, CLI::callback_t read, const std::string& help,
                   const std::string& shown, Needed needed) const {
    CLI::Option& option = *app->add_option(names, std::move(read), help);
    option.type_name(shown)->required(needed == Needed::yes);
    return option;
  }
};

Command::Command(const std::string& name, const std::string& description, const std::string& version)
    : Command(std::make_unique<Parser>(), name, description) {
  parser_->owned = std::make_unique<CLI::App>(description, name);
  parser_->app = parser_->owned.get();
  parser_->app->set_version_flag("--version", version);
  parser_->app->get_formatter()->column_width(34);
  remember("--version", {.description = "Display program version information and exit"});
}

Command::Command(std::unique_ptr<Parser> parser, const std::string& name, const std::string& description)
    : parser_(std::move(parser)), name_(name), description_(description) {
  remember("-h,--help", {.description = "Print this help message and exit"});
}

Command::~Command() = default;

void Command::remember(const std::string& names, OptionEntry entry) {
  entry.names = split_names(names);
  entry.positional = entry.positional || !entry.names[0].starts_with('-');
  entry.choices = split_choices(entry.value);
  options_.push_back(std::move(entry));
}

Command& Command::add_command(const std::string& name, const std::string& description) {
  auto parser = std::make_unique<Parser>();
  parser->app = parser_->app->add_subcommand(name, description);
  commands_.push_back(std::unique_ptr<Command>(new Command(std::move(parser), name, description)));
  return *commands_.back();
}

Command& Command::add_hidden_command(const std::string& name, const std::string& description) {
  Command& command = add_command(name, description);
  command.parser_->app->group("");
  hidden_.push_back(std::move(commands_.back()));
  commands_.pop_back();
  return command;
}

void Command::require_command() { parser_->app->require_subcommand(1); }

void Command::add_option(const OptionInfo& info, const Reader& read) {
  const bool is_flag = info.kind == OptionKind::flag, negated = is_flag && info.fallback == "true";
  const std::string name = (negated ? "--no-" : "--") + info.name;
  remember(name, {.value = is_flag ? "" : info.shown,
                  .description = line_of(info, negated),
                  .more = info.more.spelled(on_command_line),
                  .fallback = is_flag ? "" : info.fallback,
                  .unset = info.unset});
  const std::string& help = options_.back().description;
  if (is_flag) {
    parser_->app->add_flag_callback(
        name, [read, negated] { read(negated ? "false" : "true"); }, help);
    return;
  }
  const auto take = [info, read](const CLI::results_t& words) {
    read_option(info, read, fmt::format("{}", fmt::join(words, ",")));
    return true;
  };
  CLI::Option& option = parser_->add(name, take, help, info.shown, Needed::no);
  if (info.kind == OptionKind::pair) option.delimiter(',')->expected(2);
  if (!info.fallback.empty()) option.default_str(info.fallback);
}

void Command::add_positional(const std::string& name, std::string& value, const std::string& help,
                             Needed needed) {
  add_text(name, value, "TEXT", help, needed);
}

void Command::add_positionals(const std::string& name, std::vector<std::string>& values,
                              const std::string& help, Needed needed) {
  remember(name, {.value = "TEXT", .description = help, .required = needed == Needed::yes});
  parser_->app->add_option(name, values, help)->required(needed == Needed::yes);
}

void Command::add_text(const std::string& names, std::string& value, const std::string& shown,
                       const std::string& help, Needed needed) {
  remember(names, {.value = shown, .description = help, .required = needed == Needed::yes});
  const std::vector<std::string> choices = options_.back().choices;
  const std::string name = options_.back().names.back();
  const auto take = [&value, choices, name](const CLI::results_t& words) {
    const std::string problem = choices.empty() ? "" : unknown_choice(words.at(0), choices);
    if (!problem.empty()) throw CLI::ValidationError(name, problem);
    value = words.at(0);
    return true;
  };
  CLI::Option& option = parser_->add(names, take, help, shown, needed);
  if (!value.empty()) option.default_str(options_.back().fallback = value);
}

void Command::add_texts(const std::string& name, std::vector<std::string>& values, const std::string& shown,
                        const std::string& help) {
  remember(name, {.value = shown, .description = help});
  parser_->app->add_option(name, values, help)
      ->type_name(shown)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  remember(name, {.description = help});
  parser_->app->add_flag(name, value, help);
}

void Command::set_footer(const std::string& text) {
  footer_ = text;
  parser_->app->footer(text);
}

void Command::set_action(std::function<int()> run) {
  parser_->app->callback([run = std::move(run)] { g_status = run(); });
}

const Command* Command::find(const std::string& name) const {
  for (const auto* all : {&commands_, &hidden_})
    for (const auto& command : *all)
      if (command->name() == name) return command.get();
  return nullptr;
}

std::string Command::help(const std::string& path) const {
  return parser_->app->get_formatter()->make_help(parser_->app, path, CLI::AppFormatMode::Normal);
}

namespace {

// The innermost command that was named, and its words: "headlens generate power-mean".
struct Named {
  const Command* command;
  std::string path;
};

Named named_command(const CLI::App& app, const Command& program) {
  Named named{&program, program.name()};
  for (auto inner = app.get_subcommands(); !inner.empty(); inner = inner.front()->get_subcommands())
    named = {named.command->find(inner.front()->get_name()), named.path + " " + inner.front()->get_name()};
  return named;
}

// What is wrong with the line, in terms of what was probably meant. A word that nobody knows explains more
// than the option that is missing because of it.
std::string explain(const CLI::App& app, const Command& program, const CLI::ParseError& error) {
  const auto [command, path] = named_command(app, program);
  const std::string hint = join(" (see ", path, " --help)");
  const bool incomplete = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                          dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::vector<std::string> unknown = incomplete ? app.remaining(true) : std::vector<std::string>();
  if (!command->commands().empty() && !unknown.empty() && !unknown.front().starts_with('-'))
    return unknown_command(*command, path, unknown.front()) + hint;
  std::vector<std::string> known;
  for (const OptionEntry& option : command->options())
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  for (const std::string& word : unknown) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with('-')) return join(path, " has no option ", name, did_you_mean(name, known)) + hint;
  }
  return error.what() + hint;
}

}  // namespace

int Command::run(int argc, char** argv) {
  CLI::App& app = *parser_->app;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help, --version
    app.exit(wish);
    return 0;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::misuse, explain(app, *this, error));
  }
  return g_status;
}

}  // namespace headlens::app
