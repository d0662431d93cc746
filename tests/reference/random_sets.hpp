// Small random sets for tests.
#pragma once

#include "base/random.hpp"
#include "headlens/sets.hpp"

namespace headlens::reference {

template <class T>
Array normal_array(std::vector<Index> shape, std::uint64_t seed, double scale = 1) {
  Array out(dtype_of<T>(), std::move(shape));
  Stream stream(seed, "test-array");
  for (Index i = 0; i < out.size(); ++i) out.data<T>()[i] = static_cast<T>(scale * stream.normal());
  return out;
}

// Between 1 and max_keys keys each.
template <class T>
Sets ragged_sets(Index count, Index max_keys, Index dim, std::uint64_t seed) {
  std::vector<std::int64_t> offsets{0};
  Stream stream(seed, "test-sizes");
  for (Index i = 0; i < count; ++i)
    offsets.push_back(offsets.back() + 1 +
                      static_cast<Index>(stream.below(static_cast<std::uint64_t>(max_keys))));
  return Sets::from_ragged(normal_array<T>({count, dim}, seed),
                           normal_array<T>({offsets.back(), dim}, seed + 1), offsets);
}

template <class T>
Sets equal_sets(Index count, Index keys, Index dim, std::uint64_t seed) {
  return Sets::from_arrays(normal_array<T>({count, dim}, seed),
                           normal_array<T>({count, keys, dim}, seed + 1));
}

// One output: a smooth function of the sets plus noise.
inline LabelledSets labelled(Sets sets, std::uint64_t seed, Index outputs = 1) {
  Targets targets{{}, outputs, false, {sets.count()}};
  if (outputs > 1) targets.shape.push_back(outputs);
  Stream stream(seed, "test-targets");
  std::vector<double> query(static_cast<std::size_t>(sets.dim()));
  std::vector<double> keys(static_cast<std::size_t>(sets.dim() * sets.max_keys()));
  for (Index i = 0; i < sets.count(); ++i) {
    sets.copy_set(i, query.data(), keys.data(), sets.dim());
    for (Index c = 0; c < outputs; ++c)
      targets.values.push_back(query[0] * keys[0] + static_cast<double>(c) * keys[0] + 0.3 * stream.normal());
  }
  return {std::move(sets), std::move(targets)};
}

}  // namespace headlens::reference
