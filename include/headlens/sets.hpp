// Sets: one query and many keys each, with targets.
//
//   rectangular   query (n, d), keys (n, N, d)
//   tokens        tokens (n, 1 + N, d): the query first, then the keys
//   ragged        query (n, d), keys (total, d), offsets (n + 1)
//                 set i owns keys[offsets[i] : offsets[i + 1]]
//   sequence      tokens (n, L, d): every token in turn is the query, the other L - 1 are its keys
//                 (n L sets)
//
// Targets y are (n) or (n, q); for sequences (n, L) or (n, L, q). Values are float32 or float64 and are never
// copied or converted here; integers are accepted and read as float64. They may lie on a device
// (device_memory.hpp), where the CUDA back end reads them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"

namespace headlens {

// Sets that are a part of more: what holds of all of them.
struct Whole {
  Index first = 0;  // number of the first set of this part
  Index count = 0;
  Index first_keys = 0, max_keys = 0;  // keys of set 0, and of the largest set
  bool equal_sizes = true;
};

class Sets {
 public:
  // Checks shapes, offsets and that every value is finite; `name` (a file, usually) opens every error text.
  static Sets from_arrays(Array query, Array keys, std::string name = "sets");
  static Sets from_tokens(Array tokens, std::string name = "sets");
  static Sets from_ragged(Array query, Array keys, std::vector<std::int64_t> offsets,
                          std::string name = "sets");
  static Sets from_sequence(Array tokens, std::string name = "sets");

  Index count() const { return count_; }  // sets; n L for sequences
  Index dim() const { return dim_; }      // d
  Index keys_of(Index set) const;         // N of this set
  Index max_keys() const { return max_keys_; }
  Index total_keys() const { return total_keys_; }
  bool equal_sizes() const { return equal_sizes_; }
  bool is_sequence() const { return sequence_length_ > 0; }
  Index sequence_length() const { return sequence_length_; }
  bool is_query_first() const { return query_first_; }  // from_tokens
  const std::string& name() const { return name_; }
  Whole whole() const;  // of a part what set_whole() said, else of these sets
  void set_whole(const Whole& whole) { whole_ = whole; }

  bool on_device() const { return query_.device() != nullptr; }
  double host_bytes() const;  // of main memory that the tokens take

  // Writes the query to query[0:d], and the N keys to rows of `keys` that are `stride` items apart. Error if
  // the sets lie on a device: whoever can, reads them there.
  template <class T>
  void copy_set(Index set, T* query, T* keys, Index stride) const;
  // Position of key i of this set in its sequence (its own index for sets).
  Index key_position(Index set, Index key) const;

  const Array& query() const { return query_; }  // all tokens, where queries and keys share an array
  const Array& keys() const { return keys_; }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  void check_finite() const;

  Array query_;
  Array keys_;
  std::vector<std::int64_t> offsets_;
  Index count_ = 0, dim_ = 0, keys_per_set_ = 0, sequence_length_ = 0;
  Index max_keys_ = 0, total_keys_ = 0;
  bool equal_sizes_ = true, query_first_ = false;
  std::string name_;
  std::optional<Whole> whole_;
};

// Targets of `count` sets.
struct Targets {
  std::vector<double> values;  // (count, outputs), row-major
  Index outputs = 0;
  bool integer = false;      // y was an array of integers, as class labels are
  std::vector<Index> shape;  // as given
};

struct LabelledSets {
  Sets sets;
  Targets targets;
};

enum class DataLayout { sets, sequence };

// From .npz. The memory that loading takes is predicted from the headers and refused first. set_reader.hpp
// reads the same files a block at a time, and says what folders, patterns and ranks mean. The targets are
// those of all sets, on every rank: algorithms know them all, and features of their own part.
enum class RankShare;
Sets load_sets(const std::filesystem::path& path, DataLayout layout, const Execution& execution,
               RankShare share);
Sets load_sets(const std::filesystem::path& path, DataLayout layout, const Execution& execution);  // all
LabelledSets load_labelled_sets(const std::filesystem::path& path, DataLayout layout,
                                const Execution& execution);
void save_sets(const std::filesystem::path& path, const LabelledSets& data);

// `first`: number of the first value of y, for errors, where `sets` is a block of more.
Targets make_targets(const Array& y, const Sets& sets, Index first = 0);

}  // namespace headlens
