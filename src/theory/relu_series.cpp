#include "theory/relu_series.hpp"

#include <cmath>

#include "base/normal.hpp"

namespace headlens {

std::vector<double> relu_series(double h, Index count) {
  const double phi = normal_density(h);
  std::vector<double> series{h * normal_probability(h) + phi, normal_probability(h)};
  double before = 0, now = 1;  // He_n / sqrt(n!), n = t - 2
  for (Index t = 2; t < count; ++t) {
    const double n = static_cast<double>(t - 2), power = static_cast<double>(t);
    series.push_back((t % 2 == 0 ? now : -now) * phi / std::sqrt(power * (power - 1)));
    const double next = (h * now - std::sqrt(n) * before) / std::sqrt(n + 1);
    before = now;
    now = next;
  }
  series.resize(static_cast<std::size_t>(count));
  return series;
}

double relu_square(double h) { return (1 + h * h) * normal_probability(h) + h * normal_density(h); }

}  // namespace headlens
