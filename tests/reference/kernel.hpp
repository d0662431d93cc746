// The kernels of infinitely many heads, one pair of keys at a time, with the moments of
// cpu/kernels/moments.hpp (which have tests of their own against quadrature).
#pragma once

#include "cpu/kernels/moments.hpp"
#include "reference/features.hpp"

namespace headlens::reference {

struct PlainKernel {
  ModelKind kind = ModelKind::rfa;
  double bias = 0, scale = 0.5;
  Score score = Score::relu;
  Positions positions = Positions::none;
};

inline Real dot(const std::vector<double>& a, const std::vector<double>& b, Real last) {
  Real sum = last;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<Real>(a[i]) * b[i];
  return sum;
}

// E[score(g) score(g')] for scores with these means, deviations and covariance. The correlation is taken in
// long double: the step's probability has infinite slope where it is 1.
inline double score_moment(Score score, Real m, Real s, Real n, Real t, Real covariance) {
  const auto rho = static_cast<double>(s * t > 0 ? std::clamp<Real>(covariance / (s * t), -1, 1) : Real(0));
  if (score == Score::exp) return static_cast<double>(std::exp(m + n + (s * s + t * t) / 2 + covariance));
  if (score == Score::relu)
    return cpu::relu_moment(static_cast<double>(m), static_cast<double>(s), static_cast<double>(n),
                            static_cast<double>(t), rho);
  if (s * t == 0) return m > 0 && n > 0 ? 1 : 0;
  return cpu::step_moment(static_cast<double>(m / s), static_cast<double>(n / t), rho);
}

inline double kernel_entry(const PlainSet& a, const PlainSet& b, const PlainKernel& k) {
  const Real w = k.scale;
  if (k.kind == ModelKind::mlp) {
    Real cross = dot(a.query, b.query, 1), left = dot(a.query, a.query, 1), right = dot(b.query, b.query, 1);
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      cross += dot(a.keys[i], b.keys[i], 1);
      left += dot(a.keys[i], a.keys[i], 1);
      right += dot(b.keys[i], b.keys[i], 1);
    }
    return score_moment(k.score, 0, w * std::sqrt(left), 0, w * std::sqrt(right), w * w * cross);
  }
  Real sum = 0;
  const Real query = dot(a.query, b.query, 1);
  for (const auto& x : a.keys)
    for (const auto& y : b.keys) {
      const auto deviation = [&](const PlainSet& set, const std::vector<double>& key) {
        return w * std::sqrt(dot(set.query, set.query, 1) * dot(key, key, 1));
      };
      const Real tokens = dot(x, y, 1);
      sum += tokens * score_moment(k.score, k.bias * dot(a.query, x, 0), deviation(a, x),
                                   k.bias * dot(b.query, y, 0), deviation(b, y), w * w * query * tokens);
    }
  return static_cast<double>(sum) / static_cast<double>(a.keys.size() * b.keys.size());
}

}  // namespace headlens::reference
