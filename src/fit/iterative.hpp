// Ridge regression without a Gram matrix: conjugate gradients on K + n ridge (n <= p) or G + n ridge, with a
// randomised Nystrom preconditioner, or one that the caller knows. Every product recomputes the features, so
// memory stays near that of the data.
// --ridge auto: the penalty with the smallest error on a held-out tenth of the sets (exact leave-one-out
// would need the factorisation that does not fit), from the largest down, until the error has risen three
// times in a row.
#pragma once

#include "fit/ridge.hpp"
#include "linalg/cg.hpp"

namespace headlens {

template <class T>
void solve_iterative(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     MatrixView<const double> y, Solution& solution, const Execution& execution,
                     const PreconditionerAt& given);

// (K + shift) alpha = Y (dual) or (G + shift) V = Phi^T Y by conjugate gradients from `unknowns` on.
template <class T>
CgResult solve_shifted(DesignMatrix<T>& design, MatrixView<const double> y, bool dual, double shift,
                       const BlockOperator& preconditioner, const CgOptions& options,
                       MatrixView<double> unknowns, const Execution& execution);

}  // namespace headlens
