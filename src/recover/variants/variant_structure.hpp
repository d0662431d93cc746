// Is there structure in what a fit leaves over that the layer would show if its logits and values depended on
// the distance of tokens in any way? To first order such a layer adds
//
//   dF_a = sum_i (sum_b dP^i_ab x_b W_i + sum_b P^i_ab x_b N_i,a-b),   dL^i_ab = x_a M_i,a-b x_b^T.
//
// M and N depend on the distance in any way, in proportion to it, or by its sign. They are taken along the
// gradient of the residual of one half of the training examples, and what they predict is compared with the
// residual of the other half, and the other way round; both halves together predict the held-out examples.
// For noise the correlation, divided by its standard error, is about standard normal (a little below zero on
// average, for what the fit took from one half is missing in the other). A wrong minimum or a wrong variant
// shows.
#pragma once

#include "recover/variants/variant_search.hpp"

namespace headlens::recovery {

double distance_structure(const VariantData& data, const VariantCandidate& candidate, int threads);  // z
// Of a layer of any kind; 0 where the test would take minutes.
double distance_structure(const Split& split, const AttentionLayer& layer, int threads);

inline constexpr double kStructure = 5;  // z: noise does not reach so far in one test of a million

}  // namespace headlens::recovery
