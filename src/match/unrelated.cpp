#include "match/unrelated.hpp"

#include <algorithm>
#include <cmath>

#include "base/log_gamma.hpp"

namespace headlens::matching {

double chance_beyond(Index pairs, double rivals, double null_pairs, Index beyond) {
  if (beyond <= 0 || null_pairs <= 0) return 1;
  const double n = static_cast<double>(pairs), beta = null_pairs / rivals;
  const auto log_beta = [](double x, double y) { return log_gamma(x) + log_gamma(y) - log_gamma(x + y); };
  double sum = 0;
  for (Index i = beyond; i <= pairs; ++i) {
    const double k = static_cast<double>(i);
    const double log_choose = log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1);
    sum += std::exp(log_choose + log_beta(k + 1, n - k + beta) - log_beta(1, beta));
  }
  return std::min(1.0, sum);
}

double chance_of_rotations(double sum, Index terms, double dimension, double log_assignments) {
  if (sum <= 0) return 1;
  const double n = static_cast<double>(terms), d = dimension;
  // The derivative of -t sum - n/2 log(1 - t^2 / d^2) is zero at t.
  const double t = (std::sqrt(n * n + 4 * sum * sum * d * d) - n) / (2 * sum);
  return std::min(1.0, std::exp(log_assignments - t * sum - n / 2 * std::log1p(-t * t / (d * d))));
}

}  // namespace headlens::matching
