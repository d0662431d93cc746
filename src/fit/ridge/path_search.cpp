#include "fit/ridge/path_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace headlens::training {
namespace {

// Errors of penalties by their number, asked for one at a time.
class Errors {
 public:
  Errors(backend::ShiftPath& path, const std::vector<double>& ridges, Index count)
      : path_(path), ridges_(ridges), count_(static_cast<double>(count)), end_(std::ssize(ridges)) {}

  // Infinite where there is none.
  double at(Index k) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (k >= end_) return kInfinity;
    const std::vector<double> found = path_.leave_one_out({ridge(k) * count_});
    if (found.empty()) {
      end_ = k;
      return kInfinity;
    }
    found_[k] = found[0];
    return std::isfinite(found[0]) ? found[0] : kInfinity;
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

// A share of a gap, strictly inside of it.
Index golden_part(Index gap) {
  return std::max<Index>(1, static_cast<Index>(std::lround(0.381966 * static_cast<double>(gap))));
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
  Index low = -1, high = std::ssize(ridges), best = golden_part(high) - 1;  // low < best < high
  double least = errors.at(best);
  while (high - low > 2) {
    const bool down = high - best > best - low;  // towards smaller penalties
    const Index probe = down ? best + golden_part(high - best) : best - golden_part(best - low);
    const double error = errors.at(probe);
    const bool better = error < least || (error == least && !down);
    (down == better ? low : high) = better ? best : probe;
    if (!better) continue;
    best = probe;
    least = error;
  }
  return errors.trials();
}

const char* search_words(const backend::ShiftPath& path) {
  return path.one_factor() ? "" : ", golden section";
}

}  // namespace headlens::training
