#include "theory/rotation_lattice.hpp"

#include <cmath>
#include <cstdlib>

#include "base/log_gamma.hpp"
#include "theory/harmonics.hpp"

namespace headlens {

// d(l1, l2) = (l1 - l2 + 1)(l1 + l2 + d - 3)(2 l1 + d - 2) (l1 + d - 4)! / ((l1 + 1)! (d - 2)!) times the
// number of harmonics of degree l2 in d - 2 dimensions.
double log_dimension(Index dim, RotationType type) {
  const double d = static_cast<double>(dim), l1 = static_cast<double>(type.first),
               l2 = static_cast<double>(type.second);
  if (type.first == 0) return 0;
  return std::log((l1 - l2 + 1) * (l1 + l2 + d - 3) * (2 * l1 + d - 2)) + log_gamma(l1 + d - 3) -
         log_gamma(l1 + 2) - log_gamma(d - 1) + log_harmonics(dim - 2, type.second);
}

std::vector<LatticePoint> lattice(RotationType type, Index most_query, Index most_key) {
  std::vector<LatticePoint> points;
  for (Index sum = type.first + type.second; sum <= most_query + most_key; sum += 2)
    for (Index a = type.second; a <= std::min(most_query, sum - type.second); ++a)
      if (sum - a <= most_key && std::abs(2 * a - sum) <= type.first - type.second)
        points.push_back({a, sum - a});
  return points;
}

Matrix<double> product_matrix(Index dim, RotationType type, const std::vector<LatticePoint>& points) {
  const double nu = 0.5 * static_cast<double>(dim) - 1, s = static_cast<double>(type.first + type.second),
               m = static_cast<double>(type.first - type.second);
  const Index count = static_cast<Index>(points.size());
  Matrix<double> out = Matrix<double>::zeros(count, count);
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < count; ++j) {
      const LatticePoint from = points[static_cast<std::size_t>(i)], to = points[static_cast<std::size_t>(j)];
      const double a = static_cast<double>(from.query_degree), b = static_cast<double>(from.key_degree);
      const double sum = a + b, difference = a - b;
      double square = 0;
      if (to.query_degree == from.query_degree + 1 && to.key_degree == from.key_degree + 1)
        square = (sum + 2 - s) * (sum + 4 * nu + s) * (sum + 2 * nu + 2 + m) * (sum + 2 * nu - m) /
                 (64 * (a + nu) * (a + nu + 1) * (b + nu) * (b + nu + 1));
      else if (to.query_degree == from.query_degree - 1 && to.key_degree == from.key_degree + 1)
        square = (m + difference) * (m - difference + 2) * (s + 2 * nu + difference - 2) *
                 (s + 2 * nu - difference) / (64 * (a + nu) * (a + nu - 1) * (b + nu) * (b + nu + 1));
      else
        continue;
      out(i, j) = out(j, i) = std::sqrt(std::max(0.0, square));
    }
  return out;
}

}  // namespace headlens
