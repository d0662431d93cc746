// The layer as a function of all its Theta at once, with derivatives, for a fixed set of examples.
//
// Theta is kept as one matrix (d, m d): column block i is Theta_i. With U = X Theta (one product for all
// heads and tokens), the rows of U for one example, read as a (k m, d) matrix, meet its k tokens in one
// product:
//
//   L = U X_e^T        (k m, k)  logits, row a m + i: token a, head i
//   P = softmax(L)
//   Phi_e = P X_e      (k m, d)  which in memory is the (k, m d) rows of Phi
//
// Of F = sum_i P^i X W_i at fixed W, with the values V_e (m k, e) = x_b W_i of an example (row i k + b):
// along dTheta, dL = (X dTheta) X_e^T, dP = P * (dL - <P, dL>), dF_e = dP V_e, where dP is read as (k, m k).
// Adjoint: for G (n k, e), T = G_e V_e^T, C = P * (T - <P, T>), dTheta = X^T (C X_e). Each costs n k m (2 d^2
// + 2 k (d + e)) flops.
//
// Work is cut into fixed blocks of examples; sums over blocks are taken in order, so threads do not change a
// bit.
#pragma once

#include "linalg/matrix.hpp"

namespace headlens {

class AttentionMap {
 public:
  // x: (n k, d), kept as a view.
  AttentionMap(MatrixView<const double> x, Index tokens, Index heads, int threads);

  Index rows() const { return x_.rows; }  // n k
  Index tokens() const { return tokens_; }
  Index heads() const { return heads_; }
  Index dim() const { return x_.cols; }

  // P (n k m, k) and Phi (n k, m d) at theta (d, m d).
  void evaluate(MatrixView<const double> theta, MatrixView<double> p, MatrixView<double> phi) const;
  // V (n k m, e) for w (m d, e).
  void values(MatrixView<const double> w, MatrixView<double> v) const;
  // dF (n k, e) along dtheta, at the attention p and the values v.
  void derivative(MatrixView<const double> p, MatrixView<const double> v, MatrixView<const double> dtheta,
                  MatrixView<double> df) const;
  // dtheta (d, m d) = sum over rows of <g, dF/dTheta>, g (n k, e).
  void adjoint(MatrixView<const double> p, MatrixView<const double> v, MatrixView<const double> g,
               MatrixView<double> dtheta) const;

 private:
  Index block_count() const;
  struct Block {
    Index first, count;  // examples
  };
  Block block(Index b) const;

  MatrixView<const double> x_;
  Index tokens_, heads_;
  int threads_;
};

// One softmax row in place.
void softmax_row(double* logits, Index count);

}  // namespace headlens
