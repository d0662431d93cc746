// Tokens of covariance one: x' = x T with T = (C + floor)^-1/2, C the second moment of the training tokens,
// their last coordinate 1 included where there are biases. Descent then takes equal steps in all directions
// that the inputs have. The floor, 1e-8 of the mean eigenvalue, leaves the other directions as they are.
#pragma once

#include "linalg/eigen.hpp"
#include "refit/tied_examples.hpp"

namespace headlens::refitting {

// sum_k (max(values[k], 0) + floor)^power v_k v_k^T
Matrix<double> power_of(const SymmetricEigen& eigen, double floor, double power, int threads);

struct Whitening {
  Matrix<double> turn, back;  // T and its inverse, both symmetric

  Matrix<double> tokens(MatrixView<const double> x, int threads) const;  // x T
  TiedLayer in_white(const TiedLayer& layer, int threads) const;         // T^-1 [Q K V]
  TiedLayer from_white(const TiedLayer& layer, int threads) const;       // T [Q K V]
};
Whitening whiten(MatrixView<const double> x, int threads);

}  // namespace headlens::refitting
