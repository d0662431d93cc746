// What layers in use have beyond the plain layer of layer.hpp: a mask, biases and rotary positions.
//
//   F(X)_a = sum_i sum_b P^i_ab x_b W_i + c,   P^i_a = softmax over visible b of
//            x_a Theta_i x_b^T + <u_i, x_b>                      without rotary positions,
//            (x_a Q_i) R_a (x_b K_i R_b)^T + <u_i, x_b>          with them
//
// What the labels tell of biases: the query bias of a head is one vector u_i = K_i b_Q; a key bias adds the
// same number to a whole row of logits and is not seen; value and output biases are one constant c, since
// the weights of a row sum to one. A logit scale (1 / sqrt(r)) belongs to Theta, or to Q.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "headlens/array.hpp"

namespace headlens {

enum class Mask {
  none,    // every token sees all tokens of its example
  causal,  // token a sees tokens 0 .. a
};
std::string name(Mask mask);

enum class RotaryLayout {
  half,         // column j turns with column j + pairs, as in Llama
  interleaved,  // column 2 j turns with column 2 j + 1
};
std::string name(RotaryLayout layout);

// Rotary positions: at token a the pair j of the columns of Q and K is turned by the angle a base^(-j /
// pairs). (q_1, q_2) becomes (q_1 cos - q_2 sin, q_1 sin + q_2 cos), and so do the keys, so that logits
// depend on a - b.
struct Rotary {
  double base = 10000;
  RotaryLayout layout = RotaryLayout::half;
  double share = 1;  // of the columns, the first ones: these are turned, the others are not

  Index pairs(Index rank) const;                                  // share rank / 2, rounded down
  std::pair<Index, Index> columns(Index pair, Index rank) const;  // that turn together
  double frequency(Index pair, Index rank) const;                 // base^(-j / pairs)
  bool operator==(const Rotary&) const = default;
};
// "base=10000,layout=half" or "base=10000,layout=interleaved,share=0.5"; parts that are left out have their
// defaults. Error for anything else.
Rotary read_rotary(const std::string& text);
std::string name(const Rotary& rotary);

struct LayerVariant {
  Mask mask = Mask::none;
  bool bias = false;  // query biases u_i (m, d) and the constant c (e)
  std::optional<Rotary> rotary;
  // Heads that share keys and values: m / kv_groups heads each; 0 where every head has its own. Says nothing
  // about Theta and W, and matters where weights are written.
  Index kv_groups = 0;

  // Neither mask nor biases nor positions: the layer is Theta and W.
  bool plain() const { return mask == Mask::none && !bias && !rotary; }
  bool operator==(const LayerVariant&) const = default;
};
// "plain", "causal mask, biases, rotary base=10000,layout=half".
std::string name(const LayerVariant& variant);

}  // namespace headlens
