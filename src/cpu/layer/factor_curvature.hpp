// The preconditioner of the problem in factors: for every head and factor the block of J^T P_perp J, as a
// Kronecker product of its two second moments. With B_a = (diag p_a - p_a p_a^T) v O (k, e), p_a the
// attention of query a, the derivative of its output is x_a dQ k^T B_a, q_a dK^T X^T B_a and p_a X dV O. So,
// with sums over the n k rows,
//
//   Q:  I_d  x  k^T B B^T k                          (tokens of covariance one)
//   K:  mean of X^T B B^T X, weighed by |q_a|^2  x  Q^T Q
//   V:  X_p^T P_perp X_p, X_p the rows p_a X   x  O O^T: exactly the block of V
//
// The first two are taken over a sample of examples, the last over all. Heads that share K and V add up, each
// of their two moments by itself. Positions turn the columns of a pair into each other at every token
// differently, so that moments of columns that turn are diagonal on average, with one number per pair.
#pragma once

#include <vector>

#include "backend/slow_turns.hpp"
#include "cpu/layer/factor_problem.hpp"

namespace headlens::cpu {

class FactorCurvature {
 public:
  void refresh(const FactorProblem& problem, const FactorPoint& point, const FactorTangent<float>& tangent);
  void shift(double mu);
  template <class T>
  Matrix<T> apply(const Matrix<T>& a) const;

 private:
  // A symmetric matrix as eigenvalues and rows of eigenvectors. No vectors: the identity.
  struct Spectrum {
    std::vector<double> values;
    Matrix<double> vectors;
  };
  struct Block {
    Index first = 0;       // column of the parameters
    Spectrum left, right;  // (d, d) and (r, r)
  };
  static Spectrum identity(Index size);
  static Spectrum spectrum_of(MatrixView<const double> a);
  // Of one head: (d, d) of what is pooled, and (r, r). Those of Q and K are sums over sampled examples first.
  struct Moments {
    Matrix<double> keys;                      // of Q
    Matrix<double> tokens, queries;           // of K
    Matrix<double> pooled, outputs;           // of V
    double squares = 0, taken = 0, rows = 0;  // |q|^2, rows of the sample, and rows there are
  };
  static void logit_moments(const FactorProblem& problem, const FactorPoint& point, Index head, Moments& out);
  static void scale_logit_moments(const FactorProblem& problem, const FactorPoint& point, Index head,
                                  Moments& out);
  // q: orthonormal features of the point (readout.hpp), (n k, b).
  void value_moments(const FactorProblem& problem, const FactorPoint& point, MatrixView<const float> q,
                     Index head, Moments& out) const;
  void refresh_slow(const FactorProblem& problem, const FactorPoint& point);
  void set_blocks(Index head, std::vector<Moments>& moments);
  void apply_block(const Block& block, MatrixView<double> a) const;

  std::vector<backend::SlowTurns> slow_;  // of every group, with rotary positions
  std::vector<Block> blocks_;  // Q, K and V of every head; without K and V but for the first of a group
  backend::HeadRanks ranks_;
  double mu_ = 0;
  int threads_ = 1;
};

}  // namespace headlens::cpu
