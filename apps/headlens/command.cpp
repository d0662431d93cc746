#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "headlens/bytes.hpp"
#include "headlens/error.hpp"

namespace headlens::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
bool g_bar_shown = false;

void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

}  // namespace

void install_interrupt_handlers() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, not the end of the process
}

bool interrupted() { return g_interrupted != 0; }

Execution CommonOptions::execution() const {
  Execution execution;
  execution.threads = threads;
  if (!max_memory.empty()) execution.max_memory_bytes = parse_bytes(max_memory);
  execution.cancelled = interrupted;
  execution.log = [](std::string_view text) {
    clear_progress();
    fmt::print(stderr, "headlens: note: {}\n", text);
  };
  if (stderr_is_terminal()) execution.progress = progress_bar;
  return execution;
}

CLI::Validator seed_check() {
  // Parsing alone would turn -1 into 2^64 - 1.
  return {[](const std::string& text) {
            return text.starts_with('-') ? join("'", text, "' given, expected a whole number, 0 or more")
                                         : std::string();
          },
          ""};
}

void add_seed(CLI::App& command, CommonOptions& common, const std::string& what) {
  command.add_option("--seed", common.seed, what)->type_name("S")->capture_default_str()->check(seed_check());
}

void add_common_options(CLI::App& command, CommonOptions& common) {
  command
      .add_option("--threads", common.threads, "threads to use (default: all cores); never changes a result")
      ->type_name("T")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--max-memory", common.max_memory,
                  "memory to stay within, as 800M or 8G (default: 80% of what is free)")
      ->type_name("SIZE");
  command.add_flag("--json", common.json, "one JSON object on standard output");
}

std::filesystem::path npy_path(const std::string& output) {
  std::filesystem::path path(output);
  const auto type = std::filesystem::status(path).type();
  const bool special =
      type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular;
  if (!special && path.extension() != ".npy") path += ".npy";
  return path;
}

void flush_output() {
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE) throw Error(ErrorCode::environment, "cannot write to standard output");
}

void print(const CommonOptions& common, const Json& json, const std::string& text) {
  clear_progress();
  const std::string out = common.json ? json.dump(2) : text;
  fmt::print("{}\n", out);
  flush_output();
}

void progress_bar(const Progress& progress) {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last{};
  const auto now = Clock::now();
  if (now - last < std::chrono::milliseconds(100))
    return;  // the display only; nothing computed depends on it
  last = now;
  constexpr int kWidth = 30;
  const double share = progress.total > 0 ? std::min(1.0, progress.done / progress.total) : 0.0;
  const int filled = static_cast<int>(share * kWidth);
  fmt::print(stderr, "\r\033[K{:<14} [{}{}] {:3.0f}%", progress.phase,
             std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(kWidth - filled), '.'), 100 * share);
  std::fflush(stderr);
  g_bar_shown = true;
}

void clear_progress() {
  if (g_bar_shown) fmt::print(stderr, "\r\033[K");
  g_bar_shown = false;
}

}  // namespace headlens::app
