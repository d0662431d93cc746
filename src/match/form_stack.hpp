// The bilinear forms of all heads of a layer, x^T F_i y, so that every pair can be compared.
//
//   Theta   F_i = [Theta_i 0; u_i^T 0] over tokens with a trailing 1: the query bias is one more row.
//           With rotary positions the plane (a, b) of columns is the complex matrix (q_a + i q_b)(k_a + i
//           k_b)^*.
//   W       F_i = W_i
//
// In factors F_i = L_i R_i^T nothing of the size of F is formed: <L R^T, L' R'^T> is the sum of the entries
// of (L^T L') o (R^T R'), and |L R^T - L' R'^T| comes from a QR of [L L'] and of [R -R'].
#pragma once

#include <utility>
#include <vector>

#include "headlens/match.hpp"
#include "linalg/matrix.hpp"

namespace headlens::matching {

struct FormStack {
  Index heads = 0, rows = 0, cols = 0;
  Index rank = 0;  // columns of the factors of a head; 0: multiplied out
  Matrix<double> left,
      right;  // (rows, heads rank) and (cols, heads rank); left is (heads, rows cols) where multiplied out
  std::vector<std::pair<Index, Index>> planes;  // columns of a head that rotary positions turn together

  bool dense() const { return rank == 0; }
  MatrixView<const double> left_of(Index head) const { return left.view().block(0, head * rank, rows, rank); }
  MatrixView<const double> right_of(Index head) const {
    return right.view().block(0, head * rank, cols, rank);
  }
};

FormStack theta_forms(const LayerHeads& layer);
FormStack w_forms(const LayerHeads& layer);
FormStack multiplied_out(const FormStack& stack);  // without planes

// <F_i, F'_j> for all heads i and j. Both multiplied out, or both in factors.
Matrix<double> inner_products(const FormStack& a, const FormStack& b, int threads);
// |F_i - F'_j|, to rounding.
double difference(const FormStack& a, Index i, const FormStack& b, Index j);

}  // namespace headlens::matching
