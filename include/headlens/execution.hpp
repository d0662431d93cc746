// How a call runs: threads, memory, notes, progress and cancellation. None of these changes a result, but for
// one: where memory is too small for a factorisation, an iterative solver takes its place, which is noted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace headlens {

// How far a call is. Where the work is known, a share of it; an iteration has its error and the one at which
// it ends instead, and a search that may end at any step has neither.
struct Progress {
  std::string_view phase;
  double done = 0;   // of total, in any unit
  double total = 0;  // 0: nobody knows
  std::optional<double> error, goal;
};

struct Execution {
  int threads = 0;                     // 0: every core this process may use
  std::uint64_t max_memory_bytes = 0;  // 0: 80% of what is free when the call starts

  // Any of these may be empty. They are called on the calling thread only.
  std::function<void(std::string_view)> log;  // which path was taken, and why
  std::function<void(const Progress&)> progress;
  std::function<bool()> cancelled;  // asked between blocks; true ends the call with an Error

  void note(std::string_view text) const {
    if (log) log(text);
  }
  void report(std::string_view phase, double done, double total) const {
    if (progress) progress({phase, done, total, {}, {}});
  }
  void report_error(std::string_view phase, double error, double goal) const {
    if (progress) progress({phase, 0, 0, error, goal});
  }
  void check_cancelled() const;  // throws Error{interrupted}
};

}  // namespace headlens
