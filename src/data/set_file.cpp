#include "data/set_file.hpp"

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "comm/communicator.hpp"
#include "data/data_files.hpp"
#include "data/set_checks.hpp"
#include "headlens/arrays.hpp"
#include "headlens/set_reader.hpp"

namespace headlens {
namespace {

Array take(NamedArrays& arrays, const std::string& key, const std::string& file) {
  return std::move(require_array(arrays, key, file));
}

Sets sets_from(NamedArrays& arrays, DataLayout layout, const std::string& file) {
  if (layout == DataLayout::sequence) return Sets::from_sequence(take(arrays, "tokens", file), file);
  check_is_no_sequence(arrays, file);
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
  const Heed heeding(execution);
  return read_npz(path, MemoryBudget(execution).limit_bytes());
}

// One file of one process is read at once.
bool is_alone(const std::filesystem::path& path) {
  return comm::world().alone() && data_files(path) == std::vector{path};
}

// The rows of this rank, or all; of several files, or of one that several ranks share.
LabelledSets read_rows(const std::filesystem::path& path, DataLayout layout, Labels labels, RankShare share,
                       const Execution& execution) {
  const Heed heeding(execution);
  SetReader reader(path, layout, labels, execution, share);
  std::optional<LabelledSets> data;
  comm::world().together([&] {
    // Blocks of several files are joined, which takes them twice for a moment.
    const double bytes = 2 * reader.row_bytes() * static_cast<double>(reader.rows());
    MemoryBudget(execution).require(bytes, join("reading ", reader.rows(), " rows of ", path.string()));
    data = reader.next(reader.rows()).data;
  });
  if (share == RankShare::mine) data->sets.set_whole(reader.whole());
  return std::move(*data);
}

// Of all ranks, on every rank.
void gather_targets(Targets& targets, const Sets& sets) {
  comm::Communicator& ranks = comm::world();
  targets.values = comm::gather(ranks, std::span<const double>(targets.values));
  targets.integer = ranks.least(targets.integer ? 1.0 : 0.0) == 1.0;
  targets.shape[0] = sets.whole().count / (sets.is_sequence() ? sets.sequence_length() : 1);
}

}  // namespace

Sets load_sets(const std::filesystem::path& path, DataLayout layout, const Execution& execution,
               RankShare share) {
  if (!is_alone(path)) return read_rows(path, layout, Labels::ignored, share, execution).sets;
  NamedArrays arrays = read(path, execution);
  return sets_from(arrays, layout, path.string());
}

Sets load_sets(const std::filesystem::path& path, DataLayout layout, const Execution& execution) {
  return load_sets(path, layout, execution, RankShare::all);
}

LabelledSets labelled_sets_from_arrays(NamedArrays arrays, DataLayout layout, const std::string& file) {
  Sets sets = sets_from(arrays, layout, file);
  Targets targets = make_targets(take(arrays, "y", file), sets);
  return {std::move(sets), std::move(targets)};
}

LabelledSets load_labelled_sets(const std::filesystem::path& path, DataLayout layout,
                                const Execution& execution) {
  if (!is_alone(path)) {
    LabelledSets data = read_rows(path, layout, Labels::needed, RankShare::mine, execution);
    gather_targets(data.targets, data.sets);
    return data;
  }
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

Targets make_targets(const Array& y, const Sets& sets, Index first) {
  const std::string& file = sets.name();
  check_targets(y.shape(), sets.count(), sets.sequence_length(), file);
  const std::size_t lead = sets.is_sequence() ? 2 : 1;
  Targets targets;
  targets.shape = y.shape();
  targets.outputs = y.shape().size() == lead ? 1 : y.shape().back();
  targets.integer = !y.is_float();
  targets.values = y.to_doubles();
  check_target_range(targets.values, first, file);
  return targets;
}

}  // namespace headlens
