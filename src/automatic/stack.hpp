// How much each of several predictions counts, by what they say of sets they have not seen:
//
//   min over w >= 0 and b of  |y - b - sum_c w_c p_c|^2 + s |w|^2,   s a hundredth of |y - mean y|^2
//
// with the leave-one-out predictions p_c ("stacking", Wolpert 1992; Breiman 1996). Predictions that err on
// different sets help each other, and no best one has to be picked out of many that are nearly as good: few
// labels hardly tell them apart. The small term shares the weight among predictions that say the same.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::automatic {

// One weight per prediction, (n, q) each as y; at most `most` of them are above 0.
std::vector<double> stacking_weights(const std::vector<const Matrix<double>*>& predictions,
                                     MatrixView<const double> y, std::size_t most);

}  // namespace headlens::automatic
