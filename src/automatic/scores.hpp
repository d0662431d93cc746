// Coordinates as normal scores: what spans factors of a thousand, or has outliers, becomes about Gaussian.
//
// A value whose share p of the training keys lies below becomes the quantile of the normal distribution at p,
// standardised: a line through `kKnots` quantiles of the keys, from the smallest to the largest. The scores
// of equal quantiles are one, their mean. Any increasing change of a coordinate leaves its scores as they
// are, but for the lines between quantiles.
#pragma once

#include "headlens/automatic.hpp"
#include "linalg/matrix.hpp"

namespace headlens::automatic {

constexpr Index kKnots = 129;

// frame.knots and frame.scores from keys (N, d'), unclipped and not standardised.
void learn_scores(MatrixView<const double> keys, TokenFrame& frame, int threads);

// Of a value of kept coordinate j.
double score(const TokenFrame& frame, Index j, double value);

}  // namespace headlens::automatic
