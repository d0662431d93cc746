// What a layer's heads look like, and how often they agree: which recovery method can work on it.
//
// Also: attention weights as checkpoints have them, made into a layer. For a token x, a column vector, q =
// W_Q x, k = W_K x, v = W_V x, and W_O applied to the concatenated heads,
//
//   Theta_h = W_Q,h^T W_K,h / sqrt(d_head),   W_h = (W_O,h W_V,h)^T
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/arrays.hpp"
#include "headlens/execution.hpp"
#include "headlens/layer.hpp"

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

// Names of the tensors, after an optional prefix:
//   factors       W_Q, W_K, W_V, W_O
//   torch         in_proj_weight, out_proj.weight                         (nn.MultiheadAttention)
//   hugging_face  q_proj, k_proj, v_proj, o_proj | out_proj; or query, key, value, dense; with .weight
enum class WeightsFormat { automatic, factors, torch, hugging_face };
std::string name(WeightsFormat format);  // auto, factors, torch, hf

struct WeightsOptions {
  Index heads =
      0;  // of the queries; shapes tell whether keys and values have fewer (grouped-query attention)
  WeightsFormat format = WeightsFormat::automatic;
  std::string prefix;          // of the tensor names
  std::optional<Index> layer;  // of tensors (layer, out, in); may be left out if there is one
  Index restrict_dim = 0;      // keep the first coordinates only; 0: all

  void validate() const;
};

// All (out, in), or (layer, out, in). For messages, `names` has the name of each in the same order.
struct AttentionWeights {
  Array q, k, v, o;
  std::vector<std::string> names{"W_Q", "W_K", "W_V", "W_O"};
  std::vector<std::string> ignored;  // tensors beside them that are no part of a layer: biases, norms
};

// Found among named tensors; `name` (a file, usually) opens every error text.
AttentionWeights find_weights(NamedArrays tensors, const WeightsOptions& options, const std::string& name);
// From .safetensors or .npz.
AttentionWeights load_weights(const std::filesystem::path& path, const WeightsOptions& options,
                              const Execution& execution);
// From four .npy files.
AttentionWeights load_weights(const std::filesystem::path& q, const std::filesystem::path& k,
                              const std::filesystem::path& v, const std::filesystem::path& o,
                              const Execution& execution);

AttentionLayer layer_from_weights(const AttentionWeights& weights, const WeightsOptions& options,
                                  const Execution& execution);

}  // namespace headlens
