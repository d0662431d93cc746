// What a layer's heads look like, and how often they agree: which recovery method can work on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/layer.hpp"
#include "headlens/weights.hpp"

namespace headlens {

struct HeadSummary {
  double scale = 0;           // |Theta|_F: standard deviation of the logits on random signs
  double effective_rank = 0;  // (sum of singular values)^2 / sum of their squares, of Theta, to 7 digits
  double w_norm = 0;          // |W|_F
  double diagonal_mean = 0;   // of Theta
  double off_diagonal_deviation = 0;  // standard deviation of the other entries; 0 for d = 1
  double identity_cosine = 0;         // <Theta, I> / (|Theta|_F sqrt(d)); 0 for Theta = 0
};
HeadSummary summarise_head(const AttentionLayer& layer, Index head);

// A share of sampled rows with its 95% Wilson interval.
struct Share {
  double value = 0, low = 0, high = 1;
};
Share wilson_share(Index hits, Index count);

struct HeadPair {
  Index a = 0, b = 0;
  double distance = 0;  // |Theta_a - Theta_b|_F / max(|Theta_a|_F, |Theta_b|_F)
};

struct InspectOptions {
  Index tokens = 4;       // of a sampled input
  Index samples = 20000;  // rows; each from an input of its own, so rows are independent
  std::uint64_t seed = 0;

  void validate() const;
};

struct AlikeShare {
  double eps = 0;
  Share share;  // rows whose attention differs by at most eps in total variation between any two heads
};

// How often random signs make all heads attend alike. Over the distinct heads: those with W = 0 do not count.
struct Agreement {
  std::vector<AlikeShare> alike;  // for eps = 0.05, 0.1, 0.2
  Share sparse_matched;           // rows where all heads put more than 0.95 on the same token
};

struct Inspection {
  Index heads = 0, distinct_heads = 0;  // as given; in canonical form
  Index dim = 0, outputs = 0;
  std::vector<HeadSummary> per_head;
  std::optional<HeadPair> closest;     // empty for one head
  std::optional<Agreement> agreement;  // empty if no head is left in canonical form
};

Inspection inspect_layer(const AttentionLayer& layer, const InspectOptions& options,
                         const Execution& execution);

// The layer on the first `dim` coordinates of tokens and outputs.
AttentionLayer restrict_layer(const AttentionLayer& layer, Index dim);

}  // namespace headlens
