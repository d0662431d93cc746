// The point of smallest norm in the convex hull of points p_0 .. p_{k-1} that are known by their Gram matrix:
//
//   min |sum_b lambda_b p_b|^2   over lambda >= 0, sum_b lambda_b = 1.
//
// Wolfe's active set: grow a set of affinely independent points by the one that promises most, go to the
// smallest point of its affine hull, drop points whose weight would turn negative. Finite and exact up to
// rounding; O(k^3) flops per iteration at worst, a handful of iterations. Wolfe, "Finding the nearest point
// in a polytope", 1976.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

class MinNormPoint {
 public:
  // Reads all of the (k, k) Gram matrix. The weights live until the next call.
  const std::vector<double>& solve(MatrixView<const double> gram);

 private:
  bool affine_minimiser(MatrixView<const double> gram);  // false: points of the set are dependent
  bool reach_affine_minimiser(MatrixView<const double> gram);
  void drop_weightless();

  std::vector<double> lambda_;            // of all points
  std::vector<Index> active_;             // the set
  std::vector<double> weights_, target_;  // of the set: now, and at the smallest point of the affine hull
  std::vector<double> differences_;       // Gram matrix of p_i - p_first, its Cholesky factor after
};

}  // namespace headlens
