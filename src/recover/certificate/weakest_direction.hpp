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
  std::vector<double> shares;  // of each head in the direction; they sum to one
  // The lowest eigenvalues of H that were found, rising, and each head's share of each. All others are
  // larger.
  std::vector<double> values;
  std::vector<std::vector<double>> value_shares;
  bool settled = false;
  int steps = 0, products = 0;  // products with H
};

WeakestDirection weakest_direction(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                                   const std::vector<Matrix<double>>& starts,
                                   const std::function<bool()>& stop);

}  // namespace headlens::recovery
