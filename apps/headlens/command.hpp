// What every subcommand shares: common options, output, progress, interruption.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "headlens/execution.hpp"
#include "headlens/tasks.hpp"

namespace headlens::app {

using Json = nlohmann::ordered_json;

// Exit statuses. Misuse and the environment are 2, a numerical outcome without a result is 3.
enum Exit : int { kOk = 0, kError = 2, kOutcome = 3, kInterrupted = 130 };

struct CommonOptions {
  std::uint64_t seed = 0;
  int threads = 0;
  std::string max_memory;
  BackendChoice backend = BackendChoice::automatic;
  bool json = false;

  Execution execution() const;
};

// Adds --threads, --max-memory and --json.
void add_common_options(CLI::App& command, CommonOptions& common);
// Adds --backend, for the commands that compute something large.
void add_backend(CLI::App& command, CommonOptions& common);
void add_seed(CLI::App& command, CommonOptions& common, const std::string& what);
void set_action(CLI::App& command, std::function<int()> run);

// --degree, --pure, --matrix and --weight, as far as the task takes them.
void add_target_options(CLI::App& command, TaskOptions& options);

// --mean and --head-rank.
struct HeadOptions {
  std::string mean;
  std::optional<Index> rank;
};
void add_head_options(CLI::App& command, HeadOptions& options);
void apply_head_options(const HeadOptions& options, FeatureOptions& features);  // reads the file

// Error if standard output cannot be written; a reader who has seen enough (`| head`) is no error.
void flush_output();
void report_to_standard_error();  // standard output carries a file: print() goes to standard error

// One JSON object with --json, the text otherwise; on stdout, unless that carries a file (-o -).
void print(const CommonOptions& common, const Json& json, const std::string& text);

// Ctrl-C and SIGTERM end the running call at its next block; a second one ends the process at once.
void install_interrupt_handlers();
bool interrupted();

// On stderr: a line that is rewritten if that is a terminal, else a line a minute.
void show_progress(const Progress& progress);
void clear_progress();

// "'fitt' is not a command of headlens; did you mean 'fit'?"
std::string unknown_command(CLI::App& app, const std::string& path, const std::string& word);

// One function a subcommand, each in the file of its name.
void add_generate(CLI::App& app);
void add_generate_layer(CLI::App& generate);
void add_generate_examples(CLI::App& generate);
void add_generate_hard(CLI::App& generate);
void add_fit(CLI::App& app);
void add_kernel(CLI::App& app);
void add_theory(CLI::App& app);
void add_predict(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_recover(CLI::App& app);
void add_compare(CLI::App& app);
void add_inspect(CLI::App& app);
void add_study(CLI::App& app);
void add_report(CLI::App& app);
void add_info(CLI::App& app);
void add_help(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

}  // namespace headlens::app
