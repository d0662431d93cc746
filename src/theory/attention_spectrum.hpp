// The spectrum of attention with zero-mean heads, with a = <x_0, x'_0>, b_ij = <x_i, x'_j>:
//
//   K(x, x') = 1/N^2 sum_ij (1 + b_ij) kappa((1 + a)(1 + b_ij) / 4),    kappa(rho) = sum_t a_t rho^t
//
// On pairs of tokens, for harmonics of degrees a and b, c = (d - 1) / 2,
//
//   lambda_ab = sum_t a_t 4^(-t) m(t, a) m(t + 1, b),    m(t, a) = E[(1 + T)^t P_a(T)]
//   m(t, a)   = 2^t (c)_t / (2c)_t prod_{k < a} (t - k) / (t + d - 1 + k)
//
// (Rodrigues' formula and a Beta integral), and on sets lambda_ab / N for b > 0, lambda_a0 for b = 0. Every
// term is positive, so nothing cancels. Terms fall as t^(-3/2 - d) only, once t exceeds the square of the
// degrees: beyond t = 2048, whole octaves of t are summed by 20 Gauss nodes of the discrete measure.
#pragma once

#include "theory/spectrum.hpp"

namespace headlens {

struct SeriesNode {
  double t = 0;
  double weight = 0;  // a_t, times the number of terms for which the node stands
};

class AttentionSpectrum : public KernelSpectrum {
 public:
  AttentionSpectrum(Index dim, Index keys);
  double log_eigenvalue(Index query_degree, Index key_degree) const override;
  Levels levels(Index degree) const override;

  double pair_log_eigenvalue(Index query_degree, Index key_degree) const;  // lambda_ab

  static constexpr Index kMaxDegree = 2047;  // the nodes beyond the single terms must exceed the degrees

 private:
  double log_moment(double t, Index degree) const;  // log(2^-t m(t, a)); -infinity if t < a
  double trace() const;

  double dim_, keys_;
  std::vector<SeriesNode> nodes_;
  std::vector<double> base_, next_;  // log_moment(t, 0) and log_moment(t + 1, 0) at the nodes
};

}  // namespace headlens
