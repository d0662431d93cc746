// The best smaller layer for given inputs: fewer heads, a smaller rank, or keys and values that groups of
// heads share (head i of group g has Theta_i = Q_i K_g^T and W_i = V_g O_i).
//
// The layer that is made smaller labels the tokens; a student of the wanted shape is fitted to these labels
// by descent and polish from several starts: pruned or merged heads, averaged keys and values, and factors
// cut by their singular values. Beside the refit stand the usual ways that look at the weights alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headlens/match.hpp"
#include "headlens/recover.hpp"

namespace headlens {

struct RefitOptions {
  // Empty: as in the layer. Without a layer (a refit to examples) heads and rank are needed.
  std::optional<Index> heads, rank;
  std::optional<Index> kv_groups;  // empty: every head has its own keys and values
  Mask mask = Mask::none;          // of a checkpoint or of examples, which do not tell
  Index steps = 4000;  // of the descent from the best start; every start gets a fifth of them first
  std::uint64_t seed = 0;
  std::optional<double> time_limit_seconds;  // ends with the best layer so far

  void validate() const;
};

// Tokens at random, where there is no file of them.
struct RefitInputs {
  Inputs inputs = Inputs::gaussian;
  Index count = 1000;  // examples
  Index length = 16;   // tokens per example

  void validate() const;
};
Tokens draw_tokens(Index dim, const RefitInputs& inputs, std::uint64_t seed);

struct RefitShape {
  Index heads = 0, rank = 0, value_rank = 0, kv_groups = 0;
  double parameters = 0;  // numbers in the weights and biases that the outputs depend on

  bool operator==(const RefitShape&) const = default;
};

// One way to a smaller layer.
struct RefitRow {
  std::string name;  // "layer", "SVD truncation", "mean-pooled groups", .., "refit"
  RefitShape shape;
  double held_out_error = 0;  // |F - Y| / |Y|
  bool wanted = false;        // has the shape that was asked for
  bool on_front = false;      // no other row has as few parameters and as small an error
};

enum class RefitStatus {
  refitted,
  out_of_time,  // the time limit ended the refit: the layer is the best by then
};
std::string name(RefitStatus status);

struct Refit {
  RefitStatus status = RefitStatus::refitted;
  LayerHeads layer;  // in factors, keys and values repeated for every head of a group
  RefitShape shape;
  std::string start;  // the row that the refit began with
  double train_error = 1, held_out_error = 1;
  Index examples = 0, held_out = 0, tokens = 0;
  std::vector<RefitRow> rows;
  std::vector<TracePoint> trace;
  std::vector<Phase> phases;
  double seconds = 0;
};

// Labels of the tokens come from the layer.
[[nodiscard]] Refit refit(const LayerHeads& layer, const Tokens& tokens, const RefitOptions& options,
                          const Execution& execution);
// The best layer of a shape for labels of any origin, with biases: there is no layer to start from.
[[nodiscard]] Refit refit(const Examples& examples, const RefitOptions& options, const Execution& execution);

std::string to_json(const Refit& refit);
std::string in_words(const Refit& refit);

// The arrays of a layer file: Q, K, V and O, with query_bias, constant, causal, rotary and kv_groups where
// there are any. Error for biases that rotary positions turn, which a layer file cannot hold: write these
// with export_refit.
NamedArrays tensors_of(const Refit& refit);

// The layer in the layout of a checkpoint. Where every matrix has a tensor of its own, the tensors get the
// shapes of the smaller layer; in fused tensors its heads are padded with zeros.
NamedArrays export_refit(const Refit& refit, NamedArrays like, const WeightsOptions& options,
                         const std::string& name);

}  // namespace headlens
