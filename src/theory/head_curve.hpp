// The predicted error of ridge regression with an intercept on n sets and M random heads.
//
// For given heads, ridge regression is kernel regression with T = (1/M) sum_m A_m^T A_m, A_m the features of
// head m, and learning_curve.hpp applies with the spectrum of T. Over random heads, with kappa > 0,
//
//   kappa (T + kappa)^-1  ~  diag r_i,    r_i = 1 / (1 + sum_g u_g lambda_gi),
//
// over the groups g of head_spectrum.hpp, lambda_gi the eigenvalues of group g, f_g = M * features its number
// of features, and u_g the root of
//
//   kappa u_g + (u_g / f_g) sum_i lambda_gi r_i = 1.
//
// (Leave one head out; its D x D matrix A T' A^T is nearly diagonal, and depends on the head through its
// threshold alone.) Group g then spends z_g = f_g (1 - kappa u_g) degrees of freedom, z = sum_g z_g, and
// kappa solves  n - 1 = z + delta / kappa.  With u' = du / d log kappa and s'_i = sum_g (u_g + u'_g)
// lambda_gi, what heads cannot express is left, too:
//
//   mean square = (1 + 1/n) (sum_i f_i^2 r_i^2 (1 + s'_i) + sigma^2) / (1 - q / (n - 1)),
//   q = z - kappa sum_g f_g (u_g + u'_g).
//
// As M grows, u tends to 1 / kappa and s' to 0: learning_curve.hpp. With one group of M D features this is
// the formula of Simon et al. (2023) and Defilippis et al. (2024).
#pragma once

#include <optional>

#include "theory/head_spectrum.hpp"
#include "theory/learning_curve.hpp"

namespace headlens {

class HeadCurve {
 public:
  HeadCurve(HeadSpectrum spectrum, const std::vector<TargetPart>& parts, double noise);

  // `ridge` belongs to the kernel, the mean over heads: the --ridge of fit is M times as large.
  double error(Index samples, Index heads, double ridge) const;  // mean square
  Prediction best(Index samples, Index heads) const;  // over the grid of penalties that fit searches

  // The fewest heads whose error is at most this mean square; none if a billion heads have a larger error.
  std::optional<Index> heads_for(Index samples, double mean_square) const;

 private:
  struct State;
  void solve_groups(State& state) const;
  void solve_derivatives(State& state) const;

  HeadSpectrum spectrum_;
  std::vector<double> squares_;  // f_i^2, one per level
  double unseen_;                // noise, and parts of the target beyond the levels
};

}  // namespace headlens
