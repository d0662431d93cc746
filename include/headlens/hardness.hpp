// Hard layers: any step function of a hidden linear form, as an attention layer on two tokens. Parities are
// hard for learners that take averages over examples only (statistical queries); roundings are believed to be
// hard for every efficient learner as they grow (learning with rounding). docs/hardness.md says what is
// known.
//
// Tokens x, x' in {+1,-1}^d. Coordinate 0 is the control, the integers u (u[0] = 0) are hidden:
//
//   c = (x[0] - x'[0]) / 2 in {-1, 0, 1},    t = u . (x - x') / 2, an integer
//   Theta_i = (beta / 2) e_0 (u - theta_i e_0)^T,   W_i = w_i e_0
//
// Since x[0] (x[0] - x'[0]) = 2 |c|, the logit of the first token for itself over the other is x[0] beta t -
// beta theta_i |c|, and its first output is
//
//   c = +1:  G(t) = sum_i w_i tanh(beta (t - theta_i) / 2)      c = -1:  -G(-t)      c = 0:  x[0] sum_i w_i
//
// With theta_i halfway between integers, tanh is a sign up to 2 exp(-beta/2): G is the step function with
// jumps of 2 w_i at theta_i whose first and last value are opposite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/layer.hpp"

namespace headlens {

// What a hard layer says, exactly: the limit of infinite sharpness, and how far the layer is from it.
struct HiddenLabel {
  std::vector<std::int64_t> weights;  // u
  std::vector<double> steps;          // of t = -reach, .., reach on c = +1, reach = sum |u_j|
  double at_rest = 0;                 // on c = 0 the label is x[0] times this
  double sharpness = 0;               // beta
  double tolerance = 0;               // |layer - label| on every pair of sign tokens

  Index dim() const { return static_cast<Index>(weights.size()); }
  Index reach() const { return static_cast<Index>(steps.size()) / 2; }
  // Of the first token x beside the second; exchange them for the second output.
  double operator()(const double* x, const double* other) const;
};

struct HardLayer {
  AttentionLayer layer;  // one output
  HiddenLabel label;
};

// Any function g(t), t = -reach .. reach, up to the constant (g(-reach) + g(reach)) / 2; one head per jump.
HardLayer step_layer(std::vector<std::int64_t> weights, const std::vector<double>& g, double sharpness);

// g(t) = height (-1)^t for the indicator u of a set: the parity of the 2 |set| bits x[j], x'[j]. 2 |set|
// heads.
HardLayer parity_layer(Index dim, const std::vector<Index>& set, double sharpness, double height = 1);

// g(t) = round(r (t mod q) / q) mod r, halves up: learning with rounding.
std::vector<double> rounding_steps(Index reach, Index modulus, Index levels);

enum class HardKind { parity, rounding };
std::string name(HardKind kind);  // hard-parity, hard-rounding

struct HardOptions {
  HardKind kind = HardKind::parity;
  Index dim = 12;
  Index size = 3;                 // of the hidden set: s of a parity, the weight w of a rounding secret
  Index modulus = 4, levels = 2;  // of a rounding
  double sharpness = 40;
  std::uint64_t seed = 0;

  void validate() const;
};
// The hidden set is uniform among those of its size.
HardLayer draw_hard_layer(const HardOptions& options);

// Sign tokens. A share of the examples carries the labels of the input with one hidden sign of the first
// token turned over: for a parity, its hidden bit is flipped.
Examples draw_hard_examples(const HardLayer& hard, const ExampleOptions& options, double flips,
                            const Execution& execution);

// C(d-1, s): so many parities of s pairs are pairwise orthogonal, hence a lower bound of the
// statistical-query dimension. Empty for labels that are no parity.
std::optional<double> sq_dimension(const HiddenLabel& label);
double binomial(Index n, Index k);  // exact while n C(n, k) is below 2^53

// The layer file with the label beside it: `hidden` (d), `label_steps` (2 reach + 1), `label_at_rest`,
// `label_tolerance` and `sharpness` (1). Everything else reads Theta and W only.
void save_hard_layer(const std::filesystem::path& path, const HardLayer& hard);
std::optional<HiddenLabel> load_label(const std::filesystem::path& path, const Execution& execution);

}  // namespace headlens
