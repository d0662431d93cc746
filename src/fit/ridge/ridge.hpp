// Ridge regression on the centred features: minimise (1/n) |Phi V - Y|^2 + ridge |V|^2.
//
//   dual     V = Phi^T (Phi Phi^T + n ridge)^-1 Y     n unknowns
//   primal   V = (Phi^T Phi + n ridge)^-1 Phi^T Y     p unknowns
#pragma once

#include "backend/backend.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"

namespace headlens::training {

Solution solve_ridge(backend::Design& design, const Problem& problem, const Plan& plan,
                     const backend::Context& context);

// Beyond this the normal equations are not solved in any useful sense: the ridge is too small for the
// precision of the features.
constexpr double residual_limit(Precision precision) { return precision == Precision::f32 ? 1e-2 : 1e-6; }

}  // namespace headlens::training
