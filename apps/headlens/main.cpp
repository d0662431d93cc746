// headlens COMMAND ...: parses, runs one subcommand, turns every failure into one line and an exit status.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "command.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"
#include "option_list.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

int g_status = kOk;

int fail(const std::string& text, int status) {
  clear_progress();
  std::string line = "headlens: " + text;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  fmt::print(stderr, "{}\n", line);
  return status;
}

void describe(CLI::App& app) {
  app.name("headlens");
  app.description("What one attention layer can learn, and what can be learned about it.");
  app.footer(
      "Examples:\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 2048 --seed 1 -o train.npz\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 4096 --seed 2 -o test.npz\n"
      "  headlens fit train.npz --model rfa --heads 1000 -o model.hlm\n"
      "  headlens evaluate model.hlm test.npz\n\n"
      "Exit status: 0 success, 2 misuse or environment, 3 a numerical outcome without a full result,\n130 "
      "interrupted.\n"
      "'headlens COMMAND --help' tells more about a command.");
  app.set_version_flag("--version", "headlens " + version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_generate(app);
  add_fit(app);
  add_kernel(app);
  add_theory(app);
  add_predict(app);
  add_evaluate(app);
  add_recover(app);
  add_compare(app);
  add_inspect(app);
  add_study(app);
  add_report(app);
  add_info(app);
  add_help(app);
  add_completion(app);
  add_man(app);
}

// The innermost command that was named, and its words: "headlens generate power-mean".
struct Named {
  CLI::App* command;
  std::string path;
};

Named named_command(CLI::App& app) {
  Named named{&app, "headlens"};
  for (auto inner = app.get_subcommands(); !inner.empty(); inner = named.command->get_subcommands())
    named = {inner.front(), named.path + " " + inner.front()->get_name()};
  return named;
}

// What is wrong with the line, in terms of what was probably meant. A word that nobody knows explains more
// than the option that is missing because of it.
std::string explain(CLI::App& app, const CLI::ParseError& error) {
  const auto [command, path] = named_command(app);
  const std::string hint = join(" (see ", path, " --help)");
  const bool incomplete = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                          dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::vector<std::string> unknown = incomplete ? app.remaining(true) : std::vector<std::string>();
  const bool wants_command = !commands_of(*command).empty();
  if (wants_command && !unknown.empty() && !unknown.front().starts_with('-'))
    return unknown_command(*command, path, unknown.front()) + hint;
  std::vector<std::string> known;
  for (const OptionEntry& option : options_of(*command))
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  for (const std::string& word : unknown) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with('-')) return join(path, " has no option ", name, did_you_mean(name, known)) + hint;
  }
  return std::string(error.what()) + hint;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app;
  describe(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help, --version
    app.exit(wish);
    return kOk;
  } catch (const CLI::ParseError& error) {
    return fail(explain(app, error), kError);
  }
  return g_status;
}

}  // namespace

void set_action(CLI::App& command, std::function<int()> run) {
  command.callback([run = std::move(run)] { g_status = run(); });
}

}  // namespace headlens::app

int main(int argc, char** argv) {
  using namespace headlens;
  using namespace headlens::app;
  try {
    drop_blas_threads(argv);
    repair_blas_core(argv);
    install_interrupt_handlers();
    const int status = parse_and_run(argc, argv);
    flush_output();
    return status;
  } catch (const Error& error) {
    return fail(error.what(), error.code() == ErrorCode::interrupted ? kInterrupted : kError);
  } catch (const std::bad_alloc&) {
    return fail("out of memory (try a lower --max-memory, fewer heads or fewer sets)", kError);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return kOk;  // as in flush_output()
    return fail(error.what(), kError);
  } catch (const std::exception& error) {
    return fail(error.what(), kError);
  }
}
