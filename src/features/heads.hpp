// Random heads and neurons. Head m comes from its own stream, so the first heads of a larger model are the
// heads of a smaller one with the same seed.
#pragma once

#include "headlens/model.hpp"

namespace headlens {

// Fills in the default scales for sets of `keys` keys.
FeatureOptions with_default_scales(FeatureOptions options, Index keys);

// (M, D, D) entries N(bias_scale W_0, weight_scale^2), W_0 = blockdiag(I_d, 0); (M, (N + 1) D) for mlp.
// float32 models hold the float64 draws, rounded.
Array draw_heads(const FeatureOptions& options, Index dim, Index keys, int threads);

double head_items(const FeatureOptions& options, Index dim,
                  Index keys);  // as a double: may overflow an Index

}  // namespace headlens
