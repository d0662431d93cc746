// Ridge regression without a Gram matrix: conjugate gradients on K + n ridge (n <= p) or G + n ridge, with a
// randomised Nystrom preconditioner, or the one that the design knows. Every product recomputes the features,
// so memory stays near that of the data.
// Ridge auto: the penalty with the smallest error on a held-out tenth of the sets (exact leave-one-out would
// need the factorisation that does not fit), from the largest down, until the error has risen three times in
// a row.
#pragma once

#include "backend/backend.hpp"
#include "fit/plan.hpp"

namespace headlens::training {

void solve_iterative(backend::Design& design, const Problem& problem, const Plan& plan,
                     MatrixView<const double> y, Solution& solution, const backend::Context& context);

}  // namespace headlens::training
