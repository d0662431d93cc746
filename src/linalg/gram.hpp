// Sums of outer products, the bulk of the work of a fit:
//
//   add_outer: G += R R^T  (R is n x c, G is n x n)     add_inner: G += R^T R  (R is n x c, G is c x c)
//
// Only the lower triangle of G, diagonal included, is read and written. size(G)^2 * (summed size) flops.
// Float rows are multiplied in float over panels of kGramPanel summed items and accumulated in double, so the
// error is that of a float dot product of kGramPanel terms however many there are:
// |error| <= (kGramPanel + 2) eps_f32 |R| |R|^T, item by item.
#pragma once

#include "linalg/matrix.hpp"

namespace headlens {

inline constexpr Index kGramPanel = 1024;

void add_outer(MatrixView<const float> rows, MatrixView<double> gram, int threads);
void add_outer(MatrixView<const double> rows, MatrixView<double> gram, int threads);
void add_inner(MatrixView<const float> rows, MatrixView<double> gram, int threads);
void add_inner(MatrixView<const double> rows, MatrixView<double> gram, int threads);

}  // namespace headlens
