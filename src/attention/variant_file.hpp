// The parts of files that say what variant a layer is, and how long examples are (headlens/layer.hpp).
#pragma once

#include "headlens/arrays.hpp"
#include "headlens/layer.hpp"

namespace headlens {

// Variant and biases, and with rotary positions Q, K and W; Theta and W are left where they are otherwise.
AttentionLayer take_variant(NamedArrays& arrays, const std::string& file);
void add_variant(const AttentionLayer& layer, NamedArrays& arrays);
// `kv_groups` (1), where heads share keys and values.
void add_groups(Index kv_groups, NamedArrays& arrays);

// `rotary` (3) of a layer file: base, layout (0 half, 1 interleaved) and share; nothing where it has none.
std::optional<Rotary> read_rotary_array(const NamedArrays& arrays, const std::string& file);
// `causal` (1) of a layer file.
Mask read_mask(const NamedArrays& arrays, const std::string& file);

// `lengths` (n) of an examples file: empty where all examples have all tokens.
std::vector<Index> read_lengths(const Array& lengths, const Array& x, const std::string& name);
// In float64, zero beyond the lengths: whatever stood there, NaN included.
Array without_padding(const Array& array, const std::vector<Index>& lengths);

}  // namespace headlens
