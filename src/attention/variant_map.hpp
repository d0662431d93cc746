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
#pragma once

#include <vector>

#include "attention/example_map.hpp"
#include "headlens/layer.hpp"

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
  ExampleMapShape map_shape() const {
    return {heads, columns(), features(), variant.mask, variant.rotary, rank};
  }
};

template <class T>
class VariantMap final : public ExampleMap<T> {
 public:
  using typename ExampleMap<T>::In;
  using typename ExampleMap<T>::Out;
  VariantMap(In x, Index tokens, VariantShape shape, std::vector<Index> lengths, int threads);
  const VariantShape& shape() const { return shape_; }

  // z: the parameters' images of all tokens, turned; p the attention; phi (n k, features).
  void evaluate(In parameters, Out z, Out p, Out phi) const;
  // v (n k, m e): X W_i side by side, for w' (features, e).
  void values(In w, Out v) const;
  // dF (n k, e) along dparameters at fixed W.
  void derivative(In z, In p, In v, In dparameters, Out df) const;
  // dparameters = sum over rows of <g, dF / dparameters>, g (n k, e).
  void adjoint(In z, In p, In v, In g, Out dparameters) const;

 private:
  using typename ExampleMap<T>::Block;
  // (k, columns) of queries and keys of one head of one example, from rows of z.
  In left(In z, Index row, Index head) const {
    return z.block(row, head * shape_.head_columns(), this->tokens_, shape_.head_columns());
  }
  In right(In z, Index row, Index token, Index head) const {
    if (!shape_.rotary()) return this->x_.block(token, 0, this->tokens_, shape_.dim);
    return z.block(row, (shape_.heads + head) * shape_.rank, this->tokens_, shape_.rank);
  }
  void images(In parameters, Block here, Out z) const;
  void add_key_bias(In z, Index row, Index head, Out logits) const;
  void take_back(In z, Index example, Index head, In c, Index row, Out back) const;

  VariantShape shape_;
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
