// Moments of a pair of Gaussian scores by adaptive quadrature in long double.
#pragma once

#include <algorithm>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <numbers>
#include <vector>

namespace headlens::reference {

using Real = long double;

inline Real density(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<Real>); }
inline Real probability(Real x) { return std::erfc(-x / std::numbers::sqrt2_v<Real>) / 2; }

// Halves the interval until the rule's own estimate of its error is below anything a test asks for.
template <class Integrand>
Real adaptive(const Integrand& integrand, Real from, Real to, int depth = 20) {
  Real error = 0;
  const Real value =
      boost::math::quadrature::gauss_kronrod<Real, 31>::integrate(integrand, from, to, 0, 0, &error);
  if (error < 1e-17L || depth == 0) return value;
  const Real middle = (from + to) / 2;
  return adaptive(integrand, from, middle, depth - 1) + adaptive(integrand, middle, to, depth - 1);
}

// Integral over z > -h of first(h + z) density(z) second(z), where `second` has a kink or a steep step at
// z = -k / rho whose width is q / |rho|: the range is cut there, and adaptive rules do the rest.
template <class Integrand>
Real integrate(Real h, Real k, Real rho, Integrand&& integrand) {
  const Real q = std::sqrt((1 - rho) * (1 + rho)), low = std::max<Real>(-h, -40),
             high = std::max<Real>(low, 0) + 14;
  std::vector<Real> cuts{low, high};
  if (rho != 0)
    for (const Real width : {0.0L, 1.0L, 3.0L, 8.0L})
      for (const Real sign : {-1.0L, 1.0L}) cuts.push_back(-k / rho + sign * width * q / std::abs(rho));
  for (Real z = -8; z <= 8; z += 2) cuts.push_back(z);
  std::sort(cuts.begin(), cuts.end());
  Real sum = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Real from = std::max(low, cuts[i]), to = std::min(high, cuts[i + 1]);
    if (from < to) sum += adaptive(integrand, from, to);
  }
  return sum;
}

// E[relu(h + g) relu(k + g')]
inline Real relu_moment(Real h, Real k, Real rho) {
  const Real q = std::sqrt((1 - rho) * (1 + rho));
  return integrate(h, k, rho, [&](Real z) {
    const Real mean = k + rho * z;  // of the second score given the first
    const Real inner =
        q == 0 ? std::max<Real>(mean, 0) : mean * probability(mean / q) + q * density(mean / q);
    return (h + z) * density(z) * inner;
  });
}

// P(h + g > 0, k + g' > 0)
inline Real step_moment(Real h, Real k, Real rho) {
  const Real q = std::sqrt((1 - rho) * (1 + rho));
  return integrate(h, k, rho, [&](Real z) {
    const Real mean = k + rho * z;
    return density(z) * (q == 0 ? (mean > 0 ? 1.0L : 0.0L) : probability(mean / q));
  });
}

}  // namespace headlens::reference
