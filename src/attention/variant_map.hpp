// The layer of variant.hpp as a function of the parameters of its logits, with derivatives, for a fixed set
// of examples. The parameters are one matrix. Without rotary positions, with a constant 1 appended to the
// queries where there are biases,
//
//   Theta' (d + bias, m d):   L^i = [X, 1] Theta'_i X^T,   so that the last row of Theta'_i is u_i;
//
// with rotary positions
//
//   Q_1 .. Q_m | K_1 .. K_m | u (d, 2 m r + m bias):   L^i = q k^T + 1 (X u_i)^T,   q, k = X Q_i, X K_i
//   turned.
//
// Then P = softmax over the visible tokens and zero elsewhere, Phi = [P^1 X, .., P^m X, 1 where there are
// biases] and F = Phi W'. The last row of W' is the constant c. Rows beyond the length of an example are zero
// in P and Phi: their labels are zero, too, and nothing of such rows is seen. A mask lives in P alone,
// because the derivative dP = P * (dL - <P, dL>) is zero where P is.
//
// Examples are cut into fixed blocks whose sums are added in order, so threads do not change a bit.
#pragma once

#include <vector>

#include "headlens/layer.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

// What kind of parameters a layer has.
struct VariantShape {
  LayerVariant variant;
  Index dim = 0, heads = 0;
  Index rank = 0;  // columns of Q_i and K_i; rotary positions only

  Index bias() const { return variant.bias ? 1 : 0; }
  bool rotary() const { return variant.rotary.has_value(); }
  Index rows() const { return rotary() ? dim : dim + bias(); }
  Index columns() const { return rotary() ? 2 * heads * rank + heads * bias() : heads * dim; }
  Index features() const { return heads * dim + bias(); }
  Index head_columns() const { return rotary() ? rank : dim; }
};

template <class T>
class VariantMap {
 public:
  // x (n k, d), kept as a view. lengths: tokens of every example; empty where all have k.
  VariantMap(MatrixView<const T> x, Index tokens, VariantShape shape, std::vector<Index> lengths,
             int threads);

  Index rows() const { return x_.rows; }
  Index tokens() const { return tokens_; }
  const VariantShape& shape() const { return shape_; }

  Matrix<T> make_activations() const { return {rows(), shape_.columns()}; }
  Matrix<T> make_attention() const {
    return {rows() * shape_.heads, tokens_};
  }  // (example m + head) k + token
  Matrix<T> make_phi() const { return {rows(), shape_.features()}; }

  // z: the parameters' images of all tokens, turned; p the attention; phi (n k, features).
  void evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p, MatrixView<T> phi) const;
  // v (n k, m e): X W_i side by side, for w' (features, e).
  void values(MatrixView<const T> w, MatrixView<T> v) const;
  // dF (n k, e) along dparameters at fixed W.
  void derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> v,
                  MatrixView<const T> dparameters, MatrixView<T> df) const;
  // dparameters = sum over rows of <g, dF / dparameters>, g (n k, e).
  void adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> v, MatrixView<const T> g,
               MatrixView<T> dparameters) const;

  // (k, k): the attention of one head in one example.
  MatrixView<const T> attention(MatrixView<const T> p, Index example, Index head) const {
    return p.block((example * shape_.heads + head) * tokens_, 0, tokens_, tokens_);
  }
  Index length(Index example) const {
    return lengths_.empty() ? tokens_ : lengths_[static_cast<std::size_t>(example)];
  }

 private:
  struct Block {
    Index first, count;  // examples
  };
  std::vector<Block> blocks() const;
  template <class Work>
  void over_blocks(Work&& work) const;
  // (k, columns) of queries and keys of one head of one example, from rows of z.
  MatrixView<const T> left(MatrixView<const T> z, Index row, Index head) const {
    return z.block(row, head * shape_.head_columns(), tokens_, shape_.head_columns());
  }
  MatrixView<const T> right(MatrixView<const T> z, Index row, Index token, Index head) const {
    if (!shape_.rotary()) return x_.block(token, 0, tokens_, shape_.dim);
    return z.block(row, (shape_.heads + head) * shape_.rank, tokens_, shape_.rank);
  }
  void images(MatrixView<const T> parameters, Block here, MatrixView<T> z) const;
  void turn(MatrixView<T> z, double sign) const;  // rows of whole examples
  void add_key_bias(MatrixView<const T> z, Index row, Index head, MatrixView<T> logits) const;
  void take_back(MatrixView<const T> z, Index example, Index head, MatrixView<const T> c, Index row,
                 MatrixView<T> back) const;
  void normalise(Index example, MatrixView<T> logits) const;

  MatrixView<const T> x_;
  Index tokens_;
  VariantShape shape_;
  std::vector<Index> lengths_;
  int threads_;
  Matrix<T> cosine_, sine_;  // (k, pairs)
};

VariantShape shape_of(const AttentionLayer& layer);
// The parameters of the logits, and W'.
Matrix<double> pack_parameters(const AttentionLayer& layer);
Matrix<double> pack_readout(const AttentionLayer& layer);
AttentionLayer unpack_layer(const VariantShape& shape, MatrixView<const double> parameters,
                            MatrixView<const double> readout);

// F (n k, e), a few thousand rows at a time.
Matrix<double> apply_variant(const VariantShape& shape, MatrixView<const double> parameters,
                             MatrixView<const double> readout, MatrixView<const double> x, Index tokens,
                             const std::vector<Index>& lengths, int threads);

}  // namespace headlens
