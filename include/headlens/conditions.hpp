// The conditions under which Chen and Li prove that sculpting works, as numbers of a given layer; and how far
// the logits of random signs are from the Gaussian ones that the proof takes them for.
#pragma once

#include <optional>
#include <vector>

#include "headlens/inspect.hpp"

namespace headlens {

// Singular values of a matrix. Those below 1e-8 of the largest (times the root of the size) count as zero.
struct Spectrum {
  Index rank = 0, full = 0;
  std::optional<double> condition;  // largest / smallest; empty where the rank is not full
  double on_range = 0;              // largest / smallest that is not zero; 0 for the zero matrix
};

struct HeadConditions {
  Spectrum w;
  Index theta_rank = 0;
  double identity_share = 0;  // of |Theta|^2: the squared cosine with the identity
};

struct Conditions {
  std::vector<HeadConditions> per_head;
  Spectrum sum;  // of S = sum_i W_i
};
Conditions layer_conditions(const AttentionLayer& layer, const Execution& execution);

// P(|x^T Theta x'| > deviations |Theta|_F) for random signs x, x', beside the Gaussian value.
struct TailShare {
  double deviations = 0;
  Share share;
  double gaussian = 0;
};

// The logits of one head on random signs, in units of their standard deviation |Theta|_F.
struct LogitTails {
  double kolmogorov = 0;         // largest distance of their distribution from the Gaussian one
  std::vector<TailShare> tails;  // at 1, 2, 3 and 4 deviations
};
// For every head; empty for a head with Theta = 0. Takes options.samples pairs of tokens.
std::vector<std::optional<LogitTails>> logit_tails(const AttentionLayer& layer, const InspectOptions& options,
                                                   const Execution& execution);

// What sampling alone makes of the Kolmogorov distance, with probability 0.95 at most.
double kolmogorov_noise(Index samples);

}  // namespace headlens
