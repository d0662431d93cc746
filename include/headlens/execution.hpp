// How a call runs: threads, memory, back end, notes, progress and cancellation. Two of these can change a
// result. Where memory is too small for a factorisation, an iterative solver takes its place, which is noted.
// Another back end rounds differently.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "headlens/text.hpp"

namespace headlens {

// How far a call is. Where the work is known, a share of it; an iteration has its error and the one at which
// it ends instead, and a search that may end at any step has neither.
struct Progress {
  std::string_view phase;
  double done = 0;   // of total, in any unit
  double total = 0;  // 0: nobody knows
  std::optional<double> error, goal;
};

// The machine that computes what is large. Same back end, same seed: same bytes. Between back ends results
// agree to rounding only.
enum class BackendChoice {
  automatic,  // the processor; another one is never chosen without being asked for
  cpu,
  cuda,
};
std::string name(BackendChoice choice);  // "auto", "cpu", "cuda"

// Where a long pass over the features keeps its sums, so that the same call goes on from there after a kill.
struct Checkpointing {
  std::string folder;    // empty: nowhere
  std::string identity;  // what must be equal for that, in words: the command and its data
};

struct Execution {
  int threads = 0;                     // 0: every core this process may use
  std::uint64_t max_memory_bytes = 0;  // 0: 80% of what is free when the call starts
  BackendChoice backend = BackendChoice::automatic;
  Checkpointing checkpoint;

  // Any of these may be empty. They are called on the calling thread only.
  std::function<void(const Text&)> log;  // which path was taken, and why
  std::function<void(const Progress&)> progress;
  std::function<bool()> cancelled;  // asked between blocks; true ends the call with an Error

  void note(const Text& words) const {
    if (log) log(words);
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
