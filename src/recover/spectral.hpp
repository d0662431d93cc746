// Where the heads lie, from one moment of the examples. For distinct tokens a, b, c the matrix with rows
// (x_a, x_c) and columns (x_b, y_a),
//
//   T = mean over a of  sum_{b != c, both != a} (x_a x_c^T) (x) (x_b y_a^T)
//     ~ sum_i c_i vec(Theta_i) vec(W_i)^T,
//
// has the heads in its top m singular spaces, and a gap after the m-th singular value. x_a and the sum of the
// other tokens are first projected out of Y, since what they explain says nothing of Theta. T (d^2, d e) is
// never formed: with U = X A for q matrices A at once and X_e the tokens of an example,
//
//   D = U X_e^T,   C_ac = [c != a] (sum_{b != a} D_ab - D_ac),   T^T A = Y^T (C X_e)
//
// and T B likewise with X and Y exchanged: n k q (2 d (d + e) + 4 k d) flops per product. Needs three tokens.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

struct HeadSpan {
  Matrix<double> theta;        // (d, q d): q orthonormal matrices, by falling singular value
  Matrix<double> image;        // (e, q d): T^T of each, a matrix (e, d) in the span of the W_i^T
  std::vector<double> values;  // the singular values

  // Heads before the widest relative gap, at most as many as leave two values after it.
  Index count_heads() const;
};

// Y less its projection on [x_a, sum_{b != a} x_b].
Matrix<double> without_linear_part(const Split& split, int threads);

// The top `count` directions (fewer if d^2 or d e is smaller), by block power iteration.
HeadSpan head_span(const Split& split, Index count, std::uint64_t seed, Effort& effort);

// Theta_i = sum_j A_ij U_j over the first `heads` directions of the span: the best of a few random mixtures
// A, judged by the error that they leave.
Matrix<double> spectral_start(const Split& split, const HeadSpan& span, Index heads, std::uint64_t seed,
                              int start, Effort& effort);

}  // namespace headlens::recovery
