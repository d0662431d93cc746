// What theory says about a task before any data are drawn, for models with infinitely many heads:
//
//   complexity   B(f) = |f|^2 in the space of functions whose kernel is K of kernel.hpp
//   bound        sqrt(B / n), the scale of the risk bound for training over a norm ball
//   prediction   the error on fresh sets, over the variance of y, of ridge regression with an intercept and
//                the best penalty of the grid that `fit` searches
//
// Both kernels are diagonal in products of spherical harmonics of the tokens, which are uniform on the unit
// sphere, so all three are sums over degrees. docs/theory.md has the mathematics.
#pragma once

#include <optional>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/tasks.hpp"

namespace headlens {

struct TheoryOptions {
  TaskOptions task;  // one number of keys; dim 2 or more; count, seeds and precision take no part
  ModelKind model = ModelKind::rfa;  // rfa or mlp, relu, default scales
  std::vector<Index> samples;        // numbers of training sets, each 2 or more

  void validate() const;
};

struct TheoryPoint {
  Index samples = 0;
  double bound = 0;                       // in the units of y
  std::optional<double> predicted_error;  // as nmse of evaluate; none if y is constant
  double ridge = 0;                       // the penalty at which it is reached, as --ridge of fit
};

struct Theory {
  double complexity = 0;
  double variance = 0;  // of y, noise included
  std::vector<TheoryPoint> points;
};

[[nodiscard]] Theory evaluate_theory(const TheoryOptions& options, const Execution& execution);

}  // namespace headlens
