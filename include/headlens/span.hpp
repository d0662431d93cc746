// A layer as given tokens see it.
//
// Tokens that lie in a subspace tell of a layer there alone. With an orthonormal basis B (d, s) of their span
// a head on it is B^T Theta B and B^T W. With biases the span is that of x - mean, for what is the same in
// all tokens belongs to the biases: x = mean + z B^T gives
//
//   u' = B^T (Theta^T mean + u)      c' = c + sum_i mean W_i
//
// With rotary positions Q and K become B^T Q and B^T K, and no mean is taken off.
#pragma once

#include "headlens/layer.hpp"

namespace headlens {

struct TokenSpan {
  std::vector<double> mean;  // (d); zeros where no mean is taken off
  Array basis;               // (d, s), orthonormal columns
  Index dimension() const { return basis.dim(1); }
};
// Of the tokens that are no padding; for layers of this variant.
TokenSpan span_of(const Tokens& tokens, const LayerVariant& variant, const Execution& execution);

AttentionLayer on_span(const AttentionLayer& layer, const TokenSpan& span);

// |F_a - F_b| / |F_b| over all tokens.
double function_error(const AttentionLayer& a, const AttentionLayer& b, const Tokens& tokens,
                      const Execution& execution);

}  // namespace headlens
