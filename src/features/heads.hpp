// Random heads and neurons. Head m comes from its own stream, so the first heads of a larger model are the
// heads of a smaller one with the same seed.
#pragma once

#include <vector>

#include "headlens/model.hpp"

namespace headlens {

// Fills in the default scales for sets of `keys` keys.
FeatureOptions with_default_scales(FeatureOptions options, Index keys);

// W_0 (D, D) for tokens of `dim` coordinates; Error if the mean of the options does not fit them.
std::vector<double> mean_matrix(const FeatureOptions& options, Index dim);

// |bias_scale| times the largest entry of W_0.
double largest_mean(const FeatureOptions& options);

// (M, D, D) entries N(bias_scale W_0, weight_scale^2), of rank r about their mean with head_rank r;
// (M, (N + 1) D) for mlp.
// float32 models hold the float64 draws, rounded.
Array draw_heads(const FeatureOptions& options, Index dim, Index keys, int threads);

double head_items(const FeatureOptions& options, Index dim,
                  Index keys);  // as a double: may overflow an Index

}  // namespace headlens
