#include "fit/penalties.hpp"

#include <cmath>

namespace headlens::training {

std::vector<double> ridge_grid(double mean_diagonal, Index count, Precision precision) {
  if (mean_diagonal <= 0) return {1.0};  // no feature varies: every penalty gives V = 0
  const double top = 1e3 * mean_diagonal;
  const double bottom = mean_diagonal * smallest_share(precision) / static_cast<double>(count);
  std::vector<double> grid;
  for (double ridge = top; ridge >= bottom * 0.99; ridge /= std::sqrt(10.0)) grid.push_back(ridge);
  return grid;
}

Index best_trial(const std::vector<RidgeTrial>& trials) {
  Index best = 0;
  for (std::size_t k = 1; k < trials.size(); ++k) {
    const double leader = trials[static_cast<std::size_t>(best)].error;
    if (trials[k].error < leader * (1 - 1e-12) || (!std::isfinite(leader) && std::isfinite(trials[k].error)))
      best = static_cast<Index>(k);
  }
  return best;
}

}  // namespace headlens::training
