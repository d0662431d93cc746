// Smaller layers made from a layer by its weights alone: where a refit starts, and what it is compared with.
// A layer to be made smaller is a TiedLayer whose groups have one head each.
#pragma once

#include <string>
#include <vector>

#include "attention/tied_map.hpp"
#include "headlens/match.hpp"

namespace headlens::refitting {

// u_i = K_i b_i is solved for b_i; where u_i is outside the span of K_i, K_i gets a column more. Error for
// query biases beside rotary positions, which are not turned there.
TiedLayer tied_of(const LayerHeads& layer);
LayerHeads heads_of(const TiedLayer& layer, const std::string& name);

// The heads of largest |W_i|, in their order.
TiedLayer prune(const TiedLayer& layer, Index heads);
// Two heads at a time become one: those of least |Theta_a - Theta_b|^2 min(|W_a|^2, |W_b|^2). Theta is then
// the mean, weighted by |W|^2, and W the sum, both cut to the rank. Not with rotary positions.
TiedLayer merge(const TiedLayer& layer, Index heads);
// Q_i K_i^T and V_i O_i, cut to so many singular values. Not with rotary positions.
TiedLayer truncate(const TiedLayer& layer, Index rank);
// Keys and values of neighbouring heads, averaged; queries and outputs stay.
TiedLayer pool(const TiedLayer& layer, Index groups);
// The nearest shared factors: [Theta_1; Theta_2; ..] = [Q_1; Q_2; ..] K^T and [W_1 W_2 ..] = V [O_1 O_2 ..],
// cut to this rank. With rotary positions keys are averaged.
TiedLayer share(const TiedLayer& layer, Index groups, Index rank);
// Entries for tokens of covariance one: logits of size 0.5.
TiedLayer random_layer(const TiedShape& shape, std::uint64_t seed, int start);

}  // namespace headlens::refitting
