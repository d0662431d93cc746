#include "headlens/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace headlens {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string describe(const Progress& progress) {
  std::string text(progress.phase);
  if (progress.error) text += fmt::format(": error {:.1e}", *progress.error);
  if (progress.error && progress.goal) text += fmt::format(", goal {:.1e}", *progress.goal);
  return text;
}

std::optional<std::string> ProgressLines::report(const Progress& progress, double seconds) {
  constexpr double kEnough = 1;  // seconds of a phase before it says anything of the rest
  const std::string phase(progress.phase.substr(0, progress.phase.find_first_of("0123456789")));
  if (phase != phase_ || progress.done < done_then_) {
    phase_ = phase;
    began_ = seconds;
    done_then_ = progress.done;
  }
  if (seconds - last_ < every_) return std::nullopt;
  last_ = seconds;
  std::string line = describe(progress);
  if (progress.total > 0)
    line += fmt::format(" {:.0f}%", 100 * std::clamp(progress.done / progress.total, 0.0, 1.0));
  line += ", " + duration(seconds);
  const double won = progress.done - done_then_, left = progress.total - progress.done;
  if (progress.total > 0 && won > 0 && left > 0 && seconds - began_ >= kEnough)
    line += fmt::format(", about {} left of this phase", duration((seconds - began_) * left / won));
  return line;
}

}  // namespace headlens
