// Which head of one layer is which head of another, and whether one layer was made from the other.
//
// Heads are compared by what the outputs of a layer determine: Theta_i = Q_i K_i^T with the query bias u_i as
// one more row, and W_i = V_i O_i. A change of basis inside a head (Q A, K A^-T, V B, B^-1 O), a scale moved
// from Q to K and another order of the heads change none of them. With rotary positions Theta depends on the
// distance of two tokens; determined are the complex matrices q_j k_j^* of every plane j.
//
//   distance of two heads   the larger of |Theta_a - Theta_b| / s and |W_a - W_b| / s', where s is the root
//   mean
//                           square of the two norms: 0 for equal heads, about 1.4 for unrelated ones, 2 at
//                           most
//   overlap                 the cosine of two matrices, <A, B> / (|A| |B|)
//
// Theta is never formed where both layers are in factors: inner products are those of small Gram matrices,
// and distances come from a QR of both heads' factors side by side, so that they are good to rounding.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/layer.hpp"
#include "headlens/weights.hpp"

namespace headlens {

// The heads of one layer, multiplied out or in factors, with what stands beside them.
struct LayerHeads {
  std::string name;                // where the layer came from: a file, or a prefix in a file
  Array q, k;                      // (m, d, r); k is empty where q holds Theta, (m, d, d)
  Array v, o;                      // (m, d, s), (m, s, e); o is empty where v holds W, (m, d, e)
  Array query_bias;                // u (m, d); empty: none
  Array turned_query, turned_key;  // (m, r): biases that rotary positions turn; empty: none
  Array constant;                  // c (e); empty: none
  std::optional<Rotary> rotary;
  std::optional<Mask> mask;  // of layers; empty: a checkpoint, which does not tell

  Index heads() const { return q.dim(0); }
  Index dim() const { return q.dim(1); }
  Index outputs() const { return o.empty() ? v.dim(2) : o.dim(2); }
};

LayerHeads heads_of(const AttentionLayer& layer, const std::string& name);
// In factors, with biases. Tensors that no layer of headlens has (norms of queries and keys) are noted.
LayerHeads heads_from_weights(const AttentionWeights& weights, const WeightsOptions& options,
                              const std::optional<Rotary>& rotary, const Execution& execution);

struct HeadsSource {
  WeightsOptions weights;        // heads, format and prefix
  bool all_layers = false;       // every layer below the prefix, not the only one
  std::optional<Rotary> rotary;  // positions that the checkpoint does not tell
};
// Of named tensors: `Theta` and `W`, or `Q`, `K`, `V` and `O`, with `query_bias` and `constant` where
// present, are one layer; everything else is searched for attention weights.
std::vector<LayerHeads> find_heads(NamedArrays tensors, const HeadsSource& source, const std::string& name,
                                   const Execution& execution);
std::vector<LayerHeads> load_heads(const std::filesystem::path& path, const HeadsSource& source,
                                   const Execution& execution);

enum class MatchVerdict {
  same,       // every head has a partner at a distance of at most kSameDistance; constant and mask are equal
  derived,    // closer than unrelated layers are, at the level kDerivedLevel
  unrelated,  // as far as unrelated layers are
};
std::string name(MatchVerdict verdict);

// What a change of basis leaves of float32 weights: 100 roundings. bfloat16 leaves 3e-3, int8 about 1e-2.
constexpr double kSameDistance = 1e-5;
constexpr double kDerivedLevel = 0.01;

struct MatchedHead {
  Index layer_a = 0, layer_b = 0, a = 0, b = 0;  // layers and heads, counted from 0
  double distance = 0, theta_distance = 0, w_distance = 0;
  double theta_overlap = 0, w_overlap = 0;
  std::optional<Index> rival_layer, rival;  // the next nearest head of B; empty where B has no other
  double rival_distance = 0;
  bool closer = false;  // than any two heads of one layer are, by the mean of both overlaps
};

struct MatchedLayer {
  std::string a, b;  // names
  MatchVerdict verdict = MatchVerdict::unrelated;
  double worst_distance = 0, mean_overlap = 0, p_value = 1;
  double constant_distance = 0;  // |c_a - c_b| relative to the root mean square; 0 where neither has one
  bool other_mask = false;       // one layer has a causal mask and the other has none
};

// The null hypothesis behind a p-value.
enum class MatchNull {
  // Pairs of matched heads are as alike as pairs of different heads of one layer. What heads of one kind
  // share
  // (tokens of large variance, positions) is in both. Needs five heads.
  heads_of_a_layer,
  // Heads are turned at random: an upper bound, for layers of fewer heads. Knows nothing of what unrelated
  // layers share.
  rotations,
};
std::string name(MatchNull null);

struct Match {
  MatchVerdict verdict = MatchVerdict::unrelated;
  double p_value = 1;
  MatchNull null = MatchNull::heads_of_a_layer;
  double worst_distance = 0, median_distance = 0;
  Index closer = 0;           // matched pairs that are more alike than any two heads of one layer
  double within_overlap = 0;  // the overlap of the most similar two heads of one layer
  std::vector<MatchedHead> heads;
  std::vector<Index> moved;  // places in `heads` of those that stand out: 5 median distances and more
  std::vector<std::pair<Index, Index>> unmatched_a, unmatched_b;  // layer and head
  std::vector<MatchedLayer> layers;
  std::vector<std::vector<double>> table;  // across: mean overlap of the best assignment, layer by layer
};

struct MatchOptions {
  bool across = false;  // heads may be matched to heads of any layer
};
Match match_heads(const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b,
                  const MatchOptions& options, const Execution& execution);

std::string to_json(const Match& match);
std::string in_words(const Match& match);

}  // namespace headlens
