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
#include "words.hpp"

namespace headlens::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
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
  constexpr std::string_view text = "headlens: interrupted\n";
  (void)!write(STDERR_FILENO, text.data(), text.size());
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
  Execution execution;
  execution.threads = threads;
  execution.backend = backend;
  if (!max_memory.empty()) execution.max_memory_bytes = parse_bytes(max_memory);
  execution.cancelled = interrupted;
  execution.log = [](std::string_view text) {
    clear_progress();
    fmt::print(stderr, "headlens: note: {}\n", text);
  };
  execution.progress = show_progress;
  return within_address_space(execution);
}

void add_seed(CLI::App& command, CommonOptions& common, const std::string& what) {
  add_whole(command, "--seed", common.seed, what, "S")->capture_default_str();
}

void add_common_options(CLI::App& command, CommonOptions& common) {
  command
      .add_option("--threads", common.threads, "threads to use (default: all cores); never changes a result")
      ->type_name("T")
      ->transform(whole_number(1, 4096));
  command
      .add_option("--max-memory", common.max_memory,
                  "memory to stay within, as 800M or 8G (default: 80% of what is free)")
      ->type_name("SIZE");
  command.add_flag("--json", common.json, "one JSON object on standard output");
}

void add_backend(CLI::App& command, CommonOptions& common) {
  add_choice(
      command, "--backend", common.backend, "the machine that computes (`headlens info` lists them)",
      "auto|cpu|cuda",
      {{"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu}, {"cuda", BackendChoice::cuda}});
}

void report_to_standard_error() { g_stdout_taken = true; }

void flush_output() {
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE) throw Error(ErrorCode::environment, "cannot write to standard output");
}

void print(const CommonOptions& common, const Json& json, const std::string& text) {
  clear_progress();
  const std::string out = common.json ? json.dump(2) : text;
  fmt::print(g_stdout_taken ? stderr : stdout, "{}\n", out);
  flush_output();
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
