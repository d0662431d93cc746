#include "data/set_file.hpp"

#include <cmath>

#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

Array take(NamedArrays& arrays, const std::string& key, const std::string& file) {
  const auto found = arrays.find(key);
  if (found == arrays.end()) {
    std::string present;
    for (const auto& [name, array] : arrays) present += (present.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::misuse, join(file, ": array '", key,
                                        "' is missing (found: ", present.empty() ? "nothing" : present, ")"));
  }
  return std::move(found->second);
}

std::vector<std::int64_t> offsets_from(const Array& array, const std::string& file) {
  const bool floating = array.is_float() || array.dtype() == DType::boolean;
  require(!floating && array.rank() == 1, file, ": offsets is ", array.describe(),
          ", expected integers (n + 1,)");
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(array.size()));
  for (Index i = 0; i < array.size(); ++i) {
    const double value = array.at(i);
    require(value >= 0 && value < 0x1p53, file, ": offsets[", i, "] is ", value, ", expected a row of keys");
    offsets[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(value);
  }
  return offsets;
}

Sets sets_from(NamedArrays& arrays, DataLayout layout, const std::string& file) {
  if (layout == DataLayout::sequence) return Sets::from_sequence(take(arrays, "tokens", file), file);
  require(!arrays.contains("tokens") || arrays.contains("query"), file,
          ": holds 'tokens' but no 'query': is it a sequence (--sequence)?");
  Array query = take(arrays, "query", file);
  Array keys = take(arrays, "keys", file);
  if (!arrays.contains("offsets")) return Sets::from_arrays(std::move(query), std::move(keys), file);
  return Sets::from_ragged(std::move(query), std::move(keys), offsets_from(arrays.at("offsets"), file), file);
}

// Queries and keys apart, as the file has them.
Sets split(const Sets& sets) {
  const Index n = sets.count(), keys = sets.keys_of(0), dim = sets.dim();
  Array query(sets.query().dtype(), {n, dim}), all(sets.query().dtype(), {n, keys, dim});
  const auto copy = [&]<class T>(T* queries, T* rows) {
    for (Index i = 0; i < n; ++i) sets.copy_set(i, queries + i * dim, rows + i * keys * dim, dim);
  };
  if (query.dtype() == DType::f32)
    copy(query.data<float>(), all.data<float>());
  else
    copy(query.data<double>(), all.data<double>());
  return Sets::from_arrays(std::move(query), std::move(all), sets.name());
}

NamedArrays read(const std::filesystem::path& path, const Execution& execution) {
  return read_npz(path, MemoryBudget(execution).limit_bytes());
}

}  // namespace

Sets load_sets(const std::filesystem::path& path, DataLayout layout, const Execution& execution) {
  NamedArrays arrays = read(path, execution);
  return sets_from(arrays, layout, path.string());
}

LabelledSets labelled_sets_from_arrays(NamedArrays arrays, DataLayout layout, const std::string& file) {
  Sets sets = sets_from(arrays, layout, file);
  Targets targets = make_targets(take(arrays, "y", file), sets);
  return {std::move(sets), std::move(targets)};
}

LabelledSets load_labelled_sets(const std::filesystem::path& path, DataLayout layout,
                                const Execution& execution) {
  return labelled_sets_from_arrays(read(path, execution), layout, path.string());
}

void save_sets(const std::filesystem::path& path, const LabelledSets& data) {
  if (data.sets.is_query_first()) return save_sets(path, {split(data.sets), data.targets});
  const Sets& sets = data.sets;
  NamedArrays arrays;
  if (sets.is_sequence()) {
    arrays["tokens"] = sets.query();
  } else {
    arrays["query"] = sets.query();
    arrays["keys"] = sets.keys();
  }
  if (!sets.offsets().empty())
    arrays["offsets"] = Array::from(sets.offsets(), {static_cast<Index>(sets.offsets().size())});
  // y goes with the tokens: float32 sets have float32 targets.
  Array y(sets.query().dtype(), data.targets.shape);
  for (std::size_t i = 0; i < data.targets.values.size(); ++i) {
    if (y.dtype() == DType::f32)
      y.data<float>()[i] = static_cast<float>(data.targets.values[i]);
    else
      y.data<double>()[i] = data.targets.values[i];
  }
  arrays["y"] = std::move(y);
  write_npz(path, arrays);
}

Targets make_targets(const Array& y, const Sets& sets) {
  const std::string& file = sets.name();
  std::vector<Index> leading{sets.count()};
  if (sets.is_sequence()) leading = {sets.count() / sets.sequence_length(), sets.sequence_length()};
  const auto lead = leading.size();
  const bool fits = y.shape().size() >= lead && y.shape().size() <= lead + 1 &&
                    std::equal(leading.begin(), leading.end(), y.shape().begin());
  require(fits, file, ": y has shape ", format_shape(y.shape()), ", expected ", format_shape(leading),
          " or the same with a last axis of q outputs, for ", sets.count(), " sets");
  Targets targets;
  targets.shape = y.shape();
  targets.outputs = y.shape().size() == lead ? 1 : y.shape().back();
  require(targets.outputs > 0, file, ": y has shape ", format_shape(y.shape()),
          ", but at least one output is needed");
  targets.integer = !y.is_float();
  targets.values = y.to_doubles();
  constexpr double kLargest = 1e150;  // sums of squares stay finite
  for (std::size_t i = 0; i < targets.values.size(); ++i)
    require(std::abs(targets.values[i]) <= kLargest, file, ": y[", i, "] is ", targets.values[i],
            ", expected finite values of at most ", kLargest);
  return targets;
}

}  // namespace headlens
