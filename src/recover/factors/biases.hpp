// Layers with a causal mask and biases in factors (backend/factors.hpp): tokens (x, 1) make a layer with
// biases a plain one of d + 1 coordinates, but for what the softmax ignores.
//
//   [x_a, 1] [Q; b] (x_b K)^T = x_a Q K^T x_b^T + <K b, x_b>,     sum_i P^i x W_i + c = sum_i P^i x W_i + P 1
//   c
//
// So the query bias b is one more row of Q, and the constant c is one more head, which takes the plain mean
// of the coordinate 1.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

// x with a coordinate 1 appended.
struct WithOnes {
  Matrix<double> train_x, held_x;
  Split split;  // views of these
};
WithOnes with_ones(const Split& split);

// A start of a plain layer as one of a layer with this mask and, where there are biases, a constant of zero.
Factors with_variant(Factors start, const RecoverOptions& options);

// Heads without the one that holds the constant.
Index layer_heads(const Factors& factors);
Factors without_constant(const Factors& factors);

// In other coordinates of the tokens K and V have last rows again. That of K says nothing and is dropped;
// that of V belongs to the constant.
Factors without_gauge(Factors factors);

// Theta, W, the query biases u = K b and the constant.
AttentionLayer variant_layer(const Factors& factors, const LayerVariant& variant);

}  // namespace headlens::recovery
