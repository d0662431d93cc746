// What every subcommand shares: common options, output, progress, interruption.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "cli.hpp"
#include "headlens/execution.hpp"
#include "headlens/model.hpp"

namespace headlens::app {

using Json = nlohmann::ordered_json;

// Exit statuses. Misuse and the environment are 2, a numerical outcome without a result is 3.
enum Exit : int { kOk = 0, kError = 2, kOutcome = 3, kInterrupted = 130 };

struct CommonOptions {
  std::uint64_t seed = 0;
  Execution wanted;
  std::string max_memory;
  bool json = false;

  Execution execution() const;
};

// Adds --threads, --max-memory and --json.
void add_common_options(Command& command, CommonOptions& common);
// Adds --backend, for the commands that compute something large.
void add_backend(Command& command, CommonOptions& common);
// Adds --seed to a command that draws nothing: scripts give it everywhere.
void add_unused_seed(Command& command, CommonOptions& common, const std::string& what);

// Adds --report DIR.
void add_report_folder(Command& command, std::string& folder);

// The options of the heads: those named, and then the ones that fit and kernel share. The file of --mean is
// read later, when all outputs are checked.
void add_feature_options(Command& command, FeatureOptions& features, std::string& mean,
                         std::initializer_list<std::string_view> first);

// The words that the program was started with, as one line.
void remember_words(int argc, char** argv);
const std::string& command_words();

// Error if standard output cannot be written; a reader who has seen enough (`| head`) is no error.
void flush_output();
void report_to_standard_error();  // standard output carries a file: print() goes to standard error

template <class Value>
Json optional_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string percent(double share);  // "12.3", "100", "less than 0.001"; without the sign

// One JSON object with --json, the text otherwise; on stdout, unless that carries a file (-o -).
void print(const CommonOptions& common, const Json& json, const std::string& text);
void print_text(const std::string& text);

// Ctrl-C and SIGTERM end the running call at its next block; a second one ends the process at once.
void install_interrupt_handlers();
bool interrupted();

// On stderr: a line that is rewritten if that is a terminal, else a line a minute.
void show_progress(const Progress& progress);
void clear_progress();

// One function per subcommand, each in the file of its name.
void add_generate(Command& app);
void add_generate_layer(Command& generate);
void add_generate_examples(Command& generate);
void add_generate_hard(Command& generate);
void add_fit(Command& app);
void add_kernel(Command& app);
void add_plan(Command& app);
void add_theory(Command& app);
void add_predict(Command& app);
void add_evaluate(Command& app);
void add_recover(Command& app);
void add_compare(Command& app);
void add_match(Command& app);
void add_refit(Command& app);
void add_check(Command& app);
void add_export_layer(Command& app);
void add_inspect(Command& app);
void add_study(Command& app);
void add_report(Command& app);
void add_info(Command& app);
void add_help(Command& app);
void add_completion(Command& app);
void add_man(Command& app);
void add_options(Command& app);

}  // namespace headlens::app
