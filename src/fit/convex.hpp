// Losses other than the squared one, and norm balls: the reduction to the solvers of newton.hpp and
// norm_ball.hpp.
#pragma once

#include "features/feature_map.hpp"
#include "fit/design_matrix.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"

namespace headlens {

// --ridge auto: the penalty with the smallest mean validation loss over 5 folds (drawn with the seed of the
// model); with a norm ball, no penalty.
template <class T>
Solution solve_convex(DesignMatrix<T>& design, const FeatureMap<T>& map, const Problem& problem,
                      const Plan& plan, const Execution& execution);

}  // namespace headlens
