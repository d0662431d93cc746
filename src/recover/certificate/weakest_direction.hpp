// The direction of Theta that the examples see least: the smallest eigenvalue of H = J^T P_perp J, whose root
// is the smallest singular value of P_perp J. Found by the locally optimal preconditioned gradient in a small
// block (Knyazev 2001): each step minimises <a, H a> over the span of the block, its preconditioned residuals
// and its last step. The value is an upper bound, good to about 1%; a block, because one vector may rest near
// another eigenvector.
#pragma once

#include <vector>

#include "backend/layer_problem.hpp"

namespace headlens::recovery {

struct WeakestDirection {
  // |Theta| times the singular value over |Y|: by which share the labels change when Theta moves by its own
  // size in this direction and W follows as best it can.
  double response = 0;
  // The lowest eigenvalues of H that were found, rising, and their unit eigenvectors. All other eigenvalues
  // are larger.
  std::vector<double> values;
  std::vector<Matrix<double>> directions;
  bool settled = false;
  int steps = 0, products = 0;  // products with H
};

// The shares of the heads in a direction of all Theta (d, m d) of length one; they sum to one.
std::vector<double> head_shares(const Matrix<double>& direction);

WeakestDirection weakest_direction(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                                   const std::vector<Matrix<double>>& starts,
                                   const std::function<bool()>& stop);

}  // namespace headlens::recovery
