// What theory says about a task before any data are drawn:
//
//   complexity   B(f) = |f|^2 in the space of functions whose kernel is K of kernel.hpp
//   bound        2 sqrt(B E[K(x, x)] / n), the most that the mean excess risk of the minimiser over the ball
//                |f|_K^2 <= B can be, for a loss of slope 1 or less and no intercept
//   square_bound the same for the squared loss
//   prediction   the error on fresh sets, over the variance of y, of ridge regression with an intercept and
//                the best penalty of the grid that `fit` searches
//
// Tokens are uniform on the unit sphere. The kernels of rfa and mlp are diagonal in products of spherical
// harmonics of the tokens; that of brfa is a small matrix for every representation of the rotations.
// docs/theory.md has the mathematics.
#pragma once

#include <optional>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/tasks.hpp"

namespace headlens {

struct TheoryOptions {
  TaskOptions task;  // one number of keys; dim 2 or more; count, seeds and precision take no part
  ModelKind model = ModelKind::rfa;  // relu, default scales
  std::optional<double> bias_scale;  // brfa: 1 if not given
  Index heads = kInfiniteHeads;      // rfa alone may have finitely many
  std::optional<double> error;       // rfa: find the heads with which the predicted error is at most this
  std::vector<Index> samples;        // numbers of training sets, each 2 or more

  void validate() const;
};

struct TheoryPoint {
  Index samples = 0;
  // None where the complexity is known from below only.
  std::optional<double> bound;            // on the excess risk, in the units of y
  std::optional<double> square_bound;     // on the excess mean square error, in their squares
  std::optional<double> predicted_error;  // as nmse of evaluate; none if y is constant
  double ridge = 0;                       // the penalty at which it is reached, as --ridge of fit
  std::optional<Index> heads_needed;      // for TheoryOptions::error; none if no number of heads is enough
};

struct Theory {
  double complexity = 0;
  bool complexity_is_lower_bound = false;  // brfa, where the computation has not converged
  double variance = 0;                     // of y, noise included
  double kernel_mean = 0;                  // E[K(x, x)]
  double kernel_most = 0;                  // K(x, x) is at most this on unit tokens
  // Finitely many heads: mean over pairs of sets of the variance of their kernel, and its square root over
  // the root mean square of the kernel itself.
  std::optional<double> kernel_variance, kernel_deviation;
  std::vector<TheoryPoint> points;
};

[[nodiscard]] Theory evaluate_theory(const TheoryOptions& options, const Execution& execution);

}  // namespace headlens
