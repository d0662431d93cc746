// Ways in which a checkpoint may be meant: what can be changed, and the heads after a change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headlens/match.hpp"

namespace headlens::matching {

enum class LogitScale { by_root_of_rank, none, by_root_of_dim, by_rank };
enum class Storage { as_named, transposed, output_transposed };

// The members are the changes; the defaults are those of the file.
struct Convention {
  std::optional<Mask> mask;
  bool ignores_lengths = false;
  std::optional<Rotary> rotary;
  bool without_rotary = false;
  LogitScale scale = LogitScale::by_root_of_rank;
  bool without_biases = false;
  Storage storage = Storage::as_named;
  bool strided_heads = false;   // row a m + h belongs to head h, instead of row h r + a
  bool swapped = false;         // queries and keys
  bool groups_in_turn = false;  // head h has keys h mod g, instead of h / (m / g)
};
std::string name(const Convention& convention);  // "as stored", or the changes

// Every single change that these weights allow, one list per kind of change; a change of one kind excludes
// the others of the kind.
struct Change {
  void (*apply)(Convention&, const Rotary&);
  Rotary rotary;
};
std::vector<std::vector<Change>> changes_of(const LayerHeads& as_stored,
                                            const std::optional<AttentionWeights>& weights,
                                            const WeightsOptions& options, bool has_lengths);

// The heads under a convention; empty where the shapes do not allow it. Of a layer file `weights` is empty.
std::optional<LayerHeads> heads_under(const Convention& convention, const LayerHeads& as_stored,
                                      const std::optional<AttentionWeights>& weights,
                                      const WeightsOptions& options);

}  // namespace headlens::matching
