#include "headlens/set_reader.hpp"

#include <algorithm>

#include "base/memory.hpp"
#include "data/set_checks.hpp"
#include "io/allocation.hpp"
#include "io/npz_reader.hpp"

namespace headlens {
namespace {

Form form_of(const io::NpyHeader& header) { return {header.type, header.shape}; }

// What an item takes in a block: integers are kept twice, as they are and as double.
double block_item_bytes(const io::NpyHeader& header) {
  const bool floating = header.type == DType::f32 || header.type == DType::f64;
  return static_cast<double>(item_bytes(header.type)) + (floating ? 0.0 : 8.0);
}

double row_items(const io::NpyHeader& header) {
  double items = 1;
  for (std::size_t axis = 1; axis < header.shape.size(); ++axis)
    items *= static_cast<double>(header.shape[axis]);
  return items;
}

}  // namespace

// The file, and the arrays of a block.
class SetReader::Arrays {
 public:
  explicit Arrays(const std::filesystem::path& path) : file(path) {}

  const io::NpyHeader& header(const std::string& key, const std::string& name) const {
    return require_array(file.headers(), key, name);
  }
  bool has(const std::string& key) const { return file.headers().contains(key); }
  // The next rows of an array of tokens, checked here to name the place in the file, not in the block.
  Array tokens(const char* key, Index first, Index rows, const std::string& name) {
    Array array = file.read_rows(key, rows);
    if (array.is_float()) check_finite(array, name, key, first);
    return array;
  }

  io::NpzReader file;
};

SetReader::SetReader(const std::filesystem::path& path, DataLayout layout, Labels labels,
                     const Execution& execution)
    : arrays_(std::make_unique<Arrays>(path)), name_(path.string()) {
  if (layout == DataLayout::sequence) {
    const Form tokens = form_of(arrays_->header("tokens", name_));
    check_sequence(tokens, name_);
    rows_ = tokens.shape[0];
    sequence_length_ = tokens.shape[1];
    max_keys_ = sequence_length_ - 1;
    dim_ = tokens.shape[2];
  } else {
    check_is_no_sequence(arrays_->file.headers(), name_);
    const Form query = form_of(arrays_->header("query", name_)),
               keys = form_of(arrays_->header("keys", name_));
    if (arrays_->has("offsets")) {
      const double bytes = 2.0 * static_cast<double>(arrays_->header("offsets", name_).data_bytes);
      MemoryBudget(execution).require(bytes, join("reading the offsets of ", name_));
      offsets_ = offsets_from(arrays_->file.read("offsets"), name_);
      check_ragged(query, keys, offsets_, name_);
      for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
        max_keys_ = std::max<Index>(max_keys_, offsets_[i + 1] - offsets_[i]);
        equal_sizes_ = equal_sizes_ && offsets_[i + 1] - offsets_[i] == offsets_[1];
      }
    } else {
      check_rectangular(query, keys, name_);
      max_keys_ = keys.shape[1];
    }
    rows_ = query.shape[0];
    dim_ = query.shape[1];
  }
  if (labels == Labels::ignored) return;
  const std::vector<Index>& shape = arrays_->header("y", name_).shape;
  check_targets(shape, count(), sequence_length_, name_);
  outputs_ = shape.size() == (is_sequence() ? 2 : 1) ? 1 : shape.back();
}

SetReader::~SetReader() = default;

double SetReader::row_bytes() const {
  const auto bytes_of = [&](const char* key) {
    const io::NpyHeader& header = arrays_->header(key, name_);
    return block_item_bytes(header) * row_items(header) * static_cast<double>(header.shape[0]);
  };
  const double tokens = is_sequence() ? bytes_of("tokens") : bytes_of("query") + bytes_of("keys");
  const double labels = outputs_ > 0 ? bytes_of("y") + 8.0 * static_cast<double>(count() * outputs_) : 0.0;
  return (tokens + labels) / static_cast<double>(rows_);
}

double SetReader::largest_block_bytes(Index rows) const {
  if (offsets_.empty()) return row_bytes() * static_cast<double>(std::min(rows, rows_));
  const io::NpyHeader& keys = arrays_->header("keys", name_);
  const double key_bytes = block_item_bytes(keys) * row_items(keys);
  Index most = 0;
  for (Index first = 0; first < rows_; first += rows)
    most = std::max<Index>(most, offsets_[static_cast<std::size_t>(std::min(rows_, first + rows))] -
                                     offsets_[static_cast<std::size_t>(first)]);
  const double without_keys =
      row_bytes() - key_bytes * static_cast<double>(offsets_.back()) / static_cast<double>(rows_);
  return without_keys * static_cast<double>(std::min(rows, rows_)) + key_bytes * static_cast<double>(most);
}

Sets SetReader::next_ragged(Index rows) {
  const auto begin = offsets_.begin() + next_row_;
  const Index first_key = *begin, keys = begin[rows] - first_key;
  std::vector<std::int64_t> offsets(begin, begin + rows + 1);
  for (std::int64_t& offset : offsets) offset -= first_key;
  Array query = arrays_->tokens("query", next_row_, rows, name_);
  return Sets::from_ragged(std::move(query), arrays_->tokens("keys", first_key, keys, name_),
                           std::move(offsets), name_);
}

Sets SetReader::next_sets(Index rows) {
  if (is_sequence()) return Sets::from_sequence(arrays_->tokens("tokens", next_row_, rows, name_), name_);
  if (!offsets_.empty()) return next_ragged(rows);
  Array query = arrays_->tokens("query", next_row_, rows, name_);
  return Sets::from_arrays(std::move(query), arrays_->tokens("keys", next_row_, rows, name_), name_);
}

SetBlock SetReader::next(Index most_rows) {
  require(most_rows > 0 && remaining() > 0, name_, ": ", most_rows, " rows asked for, ", remaining(),
          " are left");
  const Index rows = std::min(most_rows, remaining());
  const Index first = next_row_ * (count() / rows_);
  Sets sets = next_sets(rows);
  Targets targets;
  if (outputs_ > 0) targets = make_targets(arrays_->file.read_rows("y", rows), sets, first * outputs_);
  next_row_ += rows;
  if (remaining() == 0) arrays_->file.finish();
  return {first, {std::move(sets), std::move(targets)}};
}

}  // namespace headlens
