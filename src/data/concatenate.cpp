#include "data/concatenate.hpp"

#include <algorithm>
#include <cstring>

namespace headlens {
namespace {

// Along the first axis.
Array join_arrays(const std::vector<const Array*>& parts, std::vector<Index> shape) {
  Array out(parts.front()->dtype(), std::move(shape));
  char* next = static_cast<char*>(out.raw());
  for (const Array* part : parts) {
    std::memcpy(next, part->raw(), part->bytes());
    next += part->bytes();
  }
  return out;
}

Sets join_sets(const std::vector<LabelledSets>& parts) {
  const Sets& first = parts.front().sets;
  std::vector<const Array*> queries, keys;
  Index rows = 0, total = 0;
  bool equal = true;
  for (const LabelledSets& part : parts) {
    queries.push_back(&part.sets.query());
    keys.push_back(&part.sets.keys());
    rows += part.sets.query().dim(0);
    total += part.sets.total_keys();
    equal = equal && part.sets.offsets().empty() && part.sets.keys_of(0) == first.keys_of(0);
  }
  std::vector<Index> shape = first.query().shape();
  shape[0] = rows;
  Array query = join_arrays(queries, shape);
  if (first.is_sequence()) return Sets::from_sequence(std::move(query), first.name());
  if (equal)
    return Sets::from_arrays(std::move(query), join_arrays(keys, {rows, first.keys_of(0), first.dim()}),
                             first.name());
  std::vector<std::int64_t> offsets{0};
  for (const LabelledSets& part : parts)
    for (Index i = 0; i < part.sets.count(); ++i) offsets.push_back(offsets.back() + part.sets.keys_of(i));
  return Sets::from_ragged(std::move(query), join_arrays(keys, {total, first.dim()}), std::move(offsets),
                           first.name());
}

}  // namespace

LabelledSets concatenate(std::vector<LabelledSets> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Targets targets = parts.front().targets;
  for (std::size_t i = 1; i < parts.size() && targets.outputs > 0; ++i) {
    const Targets& more = parts[i].targets;
    targets.values.insert(targets.values.end(), more.values.begin(), more.values.end());
    targets.integer = targets.integer && more.integer;
    targets.shape[0] += more.shape[0];
  }
  return {join_sets(parts), std::move(targets)};
}

}  // namespace headlens
