#include "fit/ridge/path_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace headlens::training {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();  // the error where there is no penalty

// Errors of penalties by their number, asked for one at a time.
class Errors {
 public:
  Errors(backend::ShiftPath& path, const std::vector<double>& ridges, Index count)
      : path_(path), ridges_(ridges), count_(static_cast<double>(count)), end_(std::ssize(ridges)) {}

  // Infinite where there is none.
  double at(Index k) {
    if (k >= end_) return kNone;
    const std::vector<double> found = path_.leave_one_out({ridge(k) * count_});
    if (found.empty()) {
      end_ = k;
      return kNone;
    }
    found_[k] = found[0];
    return std::isfinite(found[0]) ? found[0] : kNone;
  }

  PathTrials trials() const {
    PathTrials out;
    for (const auto& [k, error] : found_) out.trials.push_back({ridge(k), error});
    out.cut = end_ < std::ssize(ridges_);
    return out;
  }

 private:
  double ridge(Index k) const { return ridges_[static_cast<std::size_t>(k)]; }

  backend::ShiftPath& path_;
  const std::vector<double>& ridges_;
  double count_;
  Index end_;  // the first penalty that is known not to be resolved
  std::map<Index, double> found_;
};

struct Known {
  Index at;
  double error;
};

// The least error so far, between two penalties that have larger ones or none.
struct Bracket {
  Known low, best, high;

  bool is_closed() const { return high.at - low.at == 2; }
  void narrow(Known probe) {
    const bool down = probe.at > best.at;  // towards smaller penalties
    const bool better = probe.error < best.error || (probe.error == best.error && !down);
    (down == better ? low : high) = better ? best : probe;
    if (better) best = probe;
  }
};

// A share of a gap, strictly inside of it.
Index golden_part(Index gap) {
  return std::max<Index>(1, static_cast<Index>(std::lround(0.381966 * static_cast<double>(gap))));
}

// In the wider one of the two gaps.
Index golden_probe(const Bracket& in) {
  const Index before = in.best.at - in.low.at, after = in.high.at - in.best.at;
  return after > before ? in.best.at + golden_part(after) : in.best.at - golden_part(before);
}

// The penalty next to the lowest point of the parabola through the three errors: that point is between the
// outer two. None where an error is missing or all are the same.
std::optional<Index> parabola_probe(const Bracket& in) {
  const auto x = [&](const Known& k) { return static_cast<double>(k.at - in.best.at); };
  const double low = x(in.low), high = x(in.high), up = in.low.error - in.best.error,
               down = in.high.error - in.best.error;
  const double curvature = high * up - low * down;
  if (!std::isfinite(curvature) || !(curvature > 0)) return {};
  const double lowest = 0.5 * (high * high * up - low * low * down) / curvature;
  const Index probe = in.best.at + std::lround(lowest);
  if (probe != in.best.at && probe > in.low.at && probe < in.high.at) return probe;
  // The least error is known already. What is left to see is that its neighbours have larger ones.
  const bool after = in.best.at - in.low.at == 1 || (lowest > 0 && in.high.at - in.best.at > 1);
  return in.best.at + (after ? 1 : -1);
}

}  // namespace

PathTrials try_penalties(backend::ShiftPath& path, const std::vector<double>& ridges, Index count) {
  if (path.one_factor()) {
    std::vector<double> shifts;
    for (const double ridge : ridges) shifts.push_back(ridge * static_cast<double>(count));
    const std::vector<double> errors = path.leave_one_out(shifts);
    PathTrials out{{}, errors.size() < ridges.size()};
    for (std::size_t k = 0; k < errors.size(); ++k) out.trials.push_back({ridges[k], errors[k]});
    return out;
  }
  Errors errors(path, ridges, count);
  const auto known = [&](Index k) { return Known{k, errors.at(k)}; };
  const Index end = std::ssize(ridges);
  Bracket bracket{{-1, kNone}, known(golden_part(end) - 1), {end, kNone}};
  while (!bracket.is_closed()) {
    const std::optional<Index> probe = parabola_probe(bracket);
    bracket.narrow(known(probe ? *probe : golden_probe(bracket)));
  }
  return errors.trials();
}

const char* search_words(const backend::ShiftPath& path) {
  return path.one_factor() ? "" : ", golden section and parabolas";
}

}  // namespace headlens::training
