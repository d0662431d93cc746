// Losses other than the squared one, and norm balls: the reduction to the solvers of newton.hpp and
// norm_ball.hpp.
#pragma once

#include "backend/backend.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"

namespace headlens::training {

// Ridge auto: the penalty with the smallest mean validation loss over 5 folds (drawn with the seed of the
// model); with a norm ball, no penalty.
Solution solve_convex(backend::Design& design, const Problem& problem, const Plan& plan,
                      const backend::Context& context);

}  // namespace headlens::training
