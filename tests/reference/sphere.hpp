// Means over uniform unit tokens by quadrature in long double, and the kernels as functions of inner
// products.
#pragma once

#include <boost/math/quadrature/gauss.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::reference {

using Real = long double;

struct Rule {
  std::vector<Real> points, weights;
};

// One coordinate T = cos(angle) of a uniform unit vector in R^d has density sin(angle)^(d - 2) in the angle.
// The kernels are rough only where all tokens agree, at angle 0, so the panels shrink towards it.
inline Rule coordinate_rule(Index dim, int panels = 20) {
  using Gauss = boost::math::quadrature::gauss<Real, 20>;
  Rule rule;
  Real total = 0;
  for (int panel = 0; panel < panels; ++panel) {
    const Real to = std::numbers::pi_v<Real> * std::pow(Real(0.75), panel);
    const Real from = panel + 1 < panels ? to * Real(0.75) : 0;
    for (std::size_t i = 0; i < Gauss::abscissa().size(); ++i)
      for (const Real sign : {-1.0L, 1.0L}) {
        const Real angle = (from + to) / 2 + sign * (to - from) / 2 * Gauss::abscissa()[i];
        rule.points.push_back(std::cos(angle));
        rule.weights.push_back(Gauss::weights()[i] * (to - from) / 2 *
                               std::pow(std::sin(angle), static_cast<Real>(dim - 2)));
        total += rule.weights.back();
      }
  }
  for (Real& weight : rule.weights) weight /= total;
  return rule;
}

template <class Function>
Real mean(const Rule& rule, const Function& function) {
  Real sum = 0;
  for (std::size_t i = 0; i < rule.points.size(); ++i) sum += rule.weights[i] * function(rule.points[i]);
  return sum;
}

// P_a(x): (a + d - 2) P_{a+1} = (2a + d - 2) x P_a - a P_{a-1}
inline Real gegenbauer(Index dim, Index degree, Real x) {
  Real before = 1, now = x;
  if (degree == 0) return before;
  for (Index a = 1; a < degree; ++a) {
    const Real next = (static_cast<Real>(2 * a + dim - 2) * x * now - static_cast<Real>(a) * before) /
                      static_cast<Real>(a + dim - 2);
    before = now;
    now = next;
  }
  return now;
}

// E[relu(g) relu(g')]
inline Real kappa(Real rho) {
  const Real r = std::min(rho, Real(1));
  return (std::sqrt((1 - r) * (1 + r)) + r * (std::numbers::pi_v<Real> - std::acos(r))) /
         (2 * std::numbers::pi_v<Real>);
}

inline Real attention_pair(Real query, Real key) { return (1 + key) * kappa((1 + query) * (1 + key) / 4); }

}  // namespace headlens::reference
