// The progress of a call as lines of text, for a terminal or a log. Times are given, not read, so that the
// same reports make the same lines.
//
//   features 40%, 12 s, about 18 s left of this phase
//   varpro, 3 heads, step 12: error 1.2e-03, goal 1.0e-08, 12 s
#pragma once

#include <optional>
#include <string>

#include "headlens/execution.hpp"

namespace headlens {

// Phase, and error with its goal where there is one: all but the numbers that depend on time.
std::string describe(const Progress& progress);

class ProgressLines {
 public:
  // A line every so many seconds; the first when that much time has passed.
  explicit ProgressLines(double every_seconds) : every_(every_seconds) {}

  // `seconds` since the call began. Empty while no line is due.
  std::optional<std::string> report(const Progress& progress, double seconds);

 private:
  double every_, last_ = 0;
  std::string phase_;                 // without its numbers, which count steps
  double began_ = 0, done_then_ = 0;  // when this phase was first heard of, and how far it was
};

}  // namespace headlens
