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
// + 2 k (d + e)) flops. Half of that is in products of one example, in which a transposed factor costs up to
// twice the time: X_e^T and V_e^T are therefore kept as they are needed.
//
// Work is cut into fixed blocks of examples; sums over blocks are taken in order, so threads do not change a
// bit.
#pragma once

#include "linalg/matrix.hpp"

namespace headlens {

template <class T>
class AttentionMap {
 public:
  // x: (n k, d), kept as a view.
  AttentionMap(MatrixView<const T> x, Index tokens, Index heads, int threads);

  Index rows() const { return x_.rows; }  // n k
  Index tokens() const { return tokens_; }
  Index heads() const { return heads_; }
  Index dim() const { return x_.cols; }

  // P (n k m, k) and Phi (n k, m d) at theta (d, m d).
  void evaluate(MatrixView<const T> theta, MatrixView<T> p, MatrixView<T> phi) const;
  // V^T of every example, (n e, m k), for w (m d, e).
  void values(MatrixView<const T> w, MatrixView<T> vt) const;
  // dF (n k, e) along dtheta, at the attention p and the values v (n m k, e).
  void derivative(MatrixView<const T> p, MatrixView<const T> v, MatrixView<const T> dtheta,
                  MatrixView<T> df) const;
  // dtheta (d, m d) = sum over rows of <g, dF/dTheta>, g (n k, e).
  void adjoint(MatrixView<const T> p, MatrixView<const T> vt, MatrixView<const T> g,
               MatrixView<T> dtheta) const;
  // K (m d, e): the stacked C^i W_i of one row of X, C^i = sum_b p_b (x_b - mean) (x_b - mean)^T the
  // covariance of the tokens that head i attends to. dF of that row along dTheta_i is x_a dTheta_i C^i W_i.
  void slopes(MatrixView<const T> p, MatrixView<const T> phi, MatrixView<const T> vt, Index row,
              MatrixView<T> out) const;

 private:
  Index block_count() const;
  struct Block {
    Index first, count;  // examples
  };
  Block block(Index b) const;
  MatrixView<const T> transposed(Index example) const {
    return transposed_.view().block(example * dim(), 0, dim(), tokens_);
  }

  MatrixView<const T> x_;
  Matrix<T> transposed_;  // (n d, k): X_e^T
  Index tokens_, heads_;
  int threads_;
};

// V (n m k, e) from V^T (n e, m k), each converted on the way.
template <class T>
void untranspose_values(MatrixView<const double> vt, Index outputs, MatrixView<T> v);

// One softmax row in place.
template <class T>
void softmax_row(T* logits, Index count);

// t = p * (t - <p, t>) for every row: the derivative of the softmax, which is its own adjoint.
template <class T>
void softmax_derivative(MatrixView<const T> p, MatrixView<T> t);

}  // namespace headlens
