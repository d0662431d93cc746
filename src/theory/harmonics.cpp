#include "theory/harmonics.hpp"

#include <cmath>

#include "base/parallel.hpp"

namespace headlens {

double log_harmonics(Index dim, Index degree) {
  if (degree == 0) return 0;
  const double a = static_cast<double>(degree), d = static_cast<double>(dim);
  double sum = std::log((2 * a + d - 2) / a);
  for (Index k = 1; k < degree; ++k) sum += std::log1p((d - 2) / static_cast<double>(k));
  return sum;
}

double log_monomial_share(Index dim, Index power, Index degree) {
  heed();  // high degrees of high dimensions take long, all in this function
  const Index m = (power - degree) / 2;
  const double p = static_cast<double>(power), half = 0.5 * static_cast<double>(dim);
  double sum = 0;
  for (Index k = 0; k < m; ++k)
    sum += std::log((0.5 + static_cast<double>(k)) / (half + static_cast<double>(k)));
  for (Index k = 0; k < degree; ++k)
    sum += std::log(0.5 * (p - static_cast<double>(k)) / (half + static_cast<double>(m + k)));
  return sum;
}

}  // namespace headlens
