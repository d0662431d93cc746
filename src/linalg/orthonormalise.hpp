// Orthonormal columns by Cholesky, A <- A L^-T with A^T A = L L^T, twice (CholeskyQR2).
//
// |A^T A - I| <= c n eps after the second pass if the condition number of A is below about 1e7; the span and,
// up to rounding, the Gram-Schmidt order are kept: column k of the result depends on columns 0..k of A.  4 n
// c^2 flops. Yamamoto, Nakatsukasa, Yanagisawa, Fukaya 2015.
#pragma once

#include "linalg/cholesky.hpp"

namespace headlens {

// not_positive_definite: column `pivot` depends on those before it, and a is spoilt.
CholeskyResult orthonormalise_columns(MatrixView<double> a, int threads);

// rows = rows L^-T on fixed tiles of rows.
void solve_rows(MatrixView<const double> lower, MatrixView<double> rows, int threads);

}  // namespace headlens
