// Ridge regression without a Gram matrix: conjugate gradients on K + n ridge (n <= p) or G + n ridge, with a
// randomised Nystrom preconditioner, or one that the caller knows. Every product recomputes the features, so
// memory stays near that of the data.
// --ridge auto: the penalty with the smallest error on a held-out tenth of the sets (exact leave-one-out
// would need the factorisation that does not fit), from the largest down, until the error has risen three
// times in a row.
#pragma once

#include "fit/ridge.hpp"

namespace headlens {

template <class T>
void solve_iterative(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     MatrixView<const double> y, Solution& solution, const Execution& execution,
                     const PreconditionerAt& given);

}  // namespace headlens
