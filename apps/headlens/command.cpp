#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>

#include "headlens/blas_core.hpp"
#include "headlens/bytes.hpp"
#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "headlens/progress.hpp"
#include "headlens/ranks.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
int g_rank = 0, g_ranks = 1;  // for the handlers of signals
std::string g_words;
bool g_bar_shown = false;
bool g_stdout_taken = false;

constexpr unsigned kPatienceSeconds = 1;

// A single call of LAPACK may work for seconds and asks nobody. Nothing is lost by ending the process inside
// such a call, for results are written after the work; only an output that is half written must be removed
// first.
void on_patience_over(int) {
  if (unfinished_files() > 0) {
    alarm(kPatienceSeconds);
    return;
  }
  constexpr std::string_view alone = "headlens: interrupted\n";
  constexpr std::string_view ranks = "headlens: interrupted, or another rank has ended\n";
  const std::string_view text = g_ranks > 1 ? ranks : alone;
  if (g_rank == 0) (void)!write(STDERR_FILENO, text.data(), text.size());
  _exit(kInterrupted);
}

void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
  alarm(kPatienceSeconds);
}

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

}  // namespace

void install_interrupt_handlers() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGALRM, on_patience_over);
  // A closed pipe and a file at its limit (ulimit -f) are errors of the write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() { return g_interrupted != 0; }

Execution CommonOptions::execution() const {
  Execution execution = wanted;
  if (!max_memory.empty()) execution.max_memory_bytes = parse_bytes(max_memory);
  execution.cancelled = interrupted;
  g_rank = this_rank();
  g_ranks = rank_count();
  execution.log = [](const Text& text) {
    clear_progress();
    fmt::print(stderr, "headlens: note: {}\n", text.spelled(on_command_line));
  };
  execution.progress = show_progress;
  return shared_execution(within_address_space(execution));
}

void add_unused_seed(Command& command, CommonOptions& common, const std::string& what) {
  const OptionInfo seed{
      .name = "seed", .shown = "S", .help = what, .kind = OptionKind::whole, .fallback = "0"};
  command.add_option(seed, [&common](const std::string& text) {
    const auto value = parse_whole<std::uint64_t>(text);
    require(value.has_value(), option("seed"), ": '", text, "' given, expected a whole number, 0 or more");
    common.seed = *value;
  });
}

void add_common_options(Command& command, CommonOptions& common) {
  command.add_options(common.wanted, {"threads"});
  command.add_option(option_of<Execution>("max-memory").info,
                     [&common](const std::string& text) { common.max_memory = text; });
  command.add_flag("--json", common.json, "one JSON object on standard output");
}

void add_backend(Command& command, CommonOptions& common) { command.add_options(common.wanted, {"backend"}); }

void add_report_folder(Command& command, std::string& folder) {
  command.add_text("--report", folder, "DIR",
                   "folder of a page to write: the result in plain words, and figures; new, empty, or an "
                   "earlier report");
}

void add_feature_options(Command& command, FeatureOptions& features, std::string& mean,
                         std::initializer_list<std::string_view> first) {
  command.add_options(features, first);
  command.add_options(features, {"positions", "bias-scale", "weight-scale"});
  command.add_option(option_of<FeatureOptions>("mean").info,
                     [&mean](const std::string& file) { mean = file; });
  command.add_options(features, {"head-rank", "precision", "seed"});
}

void remember_words(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) g_words += (i > 1 ? " " : "") + std::string(argv[i]);
}
const std::string& command_words() { return g_words; }

void report_to_standard_error() { g_stdout_taken = true; }

void flush_output() {
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE) throw Error(ErrorCode::environment, "cannot write to standard output");
}

void print(const CommonOptions& common, const Json& json, const std::string& text) {
  print_text(common.json ? json.dump(2) : text);
}

void print_text(const std::string& text) {
  clear_progress();
  fmt::print(g_stdout_taken ? stderr : stdout, "{}\n", text);
  flush_output();
}

std::string percent(double share) {
  const double value = 100 * share;
  if (value > 0 && value < 0.001) return "less than 0.001";
  return value < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

void show_progress(const Progress& progress) {
  using Clock = std::chrono::steady_clock;  // for the display only; nothing computed depends on it
  static const Clock::time_point start = Clock::now();
  static ProgressLines lines(stderr_is_terminal() ? 0.1 : 60);
  const auto line = lines.report(progress, std::chrono::duration<double>(Clock::now() - start).count());
  if (!line) return;
  if (stderr_is_terminal())
    fmt::print(stderr, "\r\033[K{}", *line);
  else
    fmt::print(stderr, "headlens: {}\n", *line);
  std::fflush(stderr);
  g_bar_shown = stderr_is_terminal();
}

void clear_progress() {
  if (g_bar_shown) fmt::print(stderr, "\r\033[K");
  g_bar_shown = false;
}

}  // namespace headlens::app
