// The layer in its factors (backend/factors.hpp) as a function of all parameters at once, with derivatives,
// for a fixed set of examples. One product Z = X [Q | K | V] serves all heads; then, for every example and
// head, with q, k, v the columns of Z that belong to the head,
//
//   P = softmax(q k^T)  (k, k),      Phi_i = P v  (k, b_i)
//   along dZ = X dparameters:  dL = dq k^T + q dk^T,  dP = P * (dL - <P, dL>),  dPhi_i = dP v + P dv
//   adjoint of G (k, b_i):     T = G v^T,  C = P * (T - <P, T>),  dq = C k,  dk = C^T q,  dv = P^T G
//
// and dparameters = X^T dZ. Each costs 2 n k d (2 a + b) flops and 2 n k k (2 a + b) in small products.
// Examples are cut into fixed groups whose sums are added in order, so threads do not change a bit.
#pragma once

#include "backend/factors.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
class FactorMap {
 public:
  // x: (n k, d), kept as a view.
  FactorMap(MatrixView<const T> x, Index tokens, const backend::HeadRanks& ranks, int threads);

  Index rows() const { return x_.rows; }  // n k
  Index tokens() const { return tokens_; }
  Index heads() const { return static_cast<Index>(columns_.size()); }
  Index parameter_columns() const { return parameter_columns_; }
  Index value_columns() const { return value_columns_; }

  Matrix<T> make_activations() const { return {rows(), parameter_columns_}; }
  Matrix<T> make_attention() const {
    return {rows() * heads(), tokens_};
  }  // row (example m + head) k + token
  Matrix<T> make_phi() const { return {rows(), value_columns_}; }

  // z = X parameters, p the attention, phi (n k, b).
  void evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p, MatrixView<T> phi) const;
  // dphi (n k, b) along dparameters.
  void derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> dparameters,
                  MatrixView<T> dphi) const;
  // dparameters (d, 2 a + b) = sum over rows of <g, dPhi / dparameters>, g (n k, b).
  void adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g,
               MatrixView<T> dparameters) const;

 private:
  struct Block {
    Index first, count;  // examples
  };
  std::vector<Block> blocks_of(Index first, Index count) const;
  MatrixView<const T> attention(MatrixView<const T> p, Index example, Index head) const {
    return p.block((example * heads() + head) * tokens_, 0, tokens_, tokens_);
  }
  MatrixView<T> attention(MatrixView<T> p, Index example, Index head) const {
    return p.block((example * heads() + head) * tokens_, 0, tokens_, tokens_);
  }
  void normalise(MatrixView<T> logits) const;
  template <class Work>
  void over_examples(Work&& work) const;

  MatrixView<const T> x_;
  Index tokens_;
  backend::HeadRanks ranks_;
  std::vector<backend::HeadColumns> columns_;
  Index parameter_columns_, value_columns_;
  int threads_;
};

// F (n k, e), a few thousand rows at a time.
Matrix<double> apply_factors(MatrixView<const double> x, Index tokens, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads);

}  // namespace headlens::cpu
