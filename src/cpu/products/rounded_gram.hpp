// Gram matrices of rounded vectors: G += R R^T or R^T R, as in gram.hpp, with half the instructions of float.
//
// Over every kRoundedSteps summed items each vector is rounded to 16-bit integers in a unit of its own, and
// integers are multiplied and summed exactly, two products at a time. So G is, but for the rounding of its
// float sums, the Gram matrix of R + N, where N is noise that depends on nothing else:
//
//   |N_k| <= unit / 2,   unit <= |v| / kRoundedItem, v the kRoundedSteps items of the vector around k
//
// As a Gram matrix it is positive semidefinite, and the singular values of R move by |N| at most: some
// 1e-4 (sqrt(rows) + sqrt(cols)) of a typical item. Rounding G itself to float may move them by
// sqrt(eps_f32) |R|. Good enough to choose a penalty and to precondition.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::cpu {

void add_rounded_outer(MatrixView<const float> rows, MatrixView<float> gram, int threads);
// Of the columns named, in this order.
void add_rounded_inner(MatrixView<const float> rows, const std::vector<Index>& columns,
                       MatrixView<float> gram, int threads);

}  // namespace headlens::cpu
