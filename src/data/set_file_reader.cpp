#include "data/set_file_reader.hpp"

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
class SetFileReader::Arrays {
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

SetFileReader::SetFileReader(const std::filesystem::path& path, DataLayout layout, Labels labels,
                             const Execution& execution)
    : arrays_(std::make_unique<Arrays>(path)), name_(path.string()) {
  look_at_tokens(layout, execution);
  if (labels == Labels::needed) {
    const std::vector<Index>& shape = arrays_->header("y", name_).shape;
    check_targets(shape, facts_.rows * facts_.sets_in_row(), facts_.sequence_length, name_);
    facts_.target_axes = std::ssize(shape);
    facts_.outputs = shape.size() == (facts_.sequence_length > 0 ? 2U : 1U) ? 1 : shape.back();
  }
  weigh();
}

SetFileReader::~SetFileReader() = default;

void SetFileReader::look_at_tokens(DataLayout layout, const Execution& execution) {
  if (layout == DataLayout::sequence) {
    const Form tokens = form_of(arrays_->header("tokens", name_));
    check_sequence(tokens, name_);
    facts_.rows = tokens.shape[0];
    facts_.sequence_length = tokens.shape[1];
    facts_.max_keys = facts_.first_keys = tokens.shape[1] - 1;
    facts_.dim = tokens.shape[2];
    facts_.double_tokens = tokens.type == DType::f32 ? 0 : 1;
    return;
  }
  check_is_no_sequence(arrays_->file.headers(), name_);
  const Form query = form_of(arrays_->header("query", name_)), keys = form_of(arrays_->header("keys", name_));
  if (arrays_->has("offsets")) {
    const double bytes = 2.0 * static_cast<double>(arrays_->header("offsets", name_).data_bytes);
    MemoryBudget(execution).require(bytes, join("reading the offsets of ", name_));
    offsets_ = offsets_from(arrays_->file.read("offsets"), name_);
    check_ragged(query, keys, offsets_, name_);
    facts_.first_keys = offsets_[1];
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
      facts_.max_keys = std::max<Index>(facts_.max_keys, offsets_[i + 1] - offsets_[i]);
      if (offsets_[i + 1] - offsets_[i] != offsets_[1]) facts_.equal_sizes = 0;
    }
  } else {
    check_rectangular(query, keys, name_);
    facts_.max_keys = facts_.first_keys = keys.shape[1];
  }
  facts_.rows = query.shape[0];
  facts_.dim = query.shape[1];
  facts_.double_tokens = (query.type == DType::f32 ? 0 : 1) + (keys.type == DType::f32 ? 0 : 2);
}

void SetFileReader::weigh() {
  const auto bytes_of = [&](const char* key) {
    const io::NpyHeader& header = arrays_->header(key, name_);
    return block_item_bytes(header) * row_items(header) * static_cast<double>(header.shape[0]);
  };
  const auto rows = static_cast<double>(facts_.rows);
  const double tokens =
      facts_.sequence_length > 0 ? bytes_of("tokens") : bytes_of("query") + bytes_of("keys");
  const double sets = rows * static_cast<double>(facts_.sets_in_row());
  const double labels =
      facts_.outputs > 0 ? bytes_of("y") + 8.0 * sets * static_cast<double>(facts_.outputs) : 0.0;
  facts_.row_bytes = facts_.widest_bytes = (tokens + labels) / rows;
  if (offsets_.empty()) return;
  const io::NpyHeader& keys = arrays_->header("keys", name_);
  const double key_bytes = block_item_bytes(keys) * row_items(keys);
  facts_.widest_bytes +=
      key_bytes * (static_cast<double>(facts_.max_keys) - static_cast<double>(offsets_.back()) / rows);
}

double SetFileReader::largest_block_bytes(Index rows) const {
  const Index all = facts_.rows;
  if (offsets_.empty()) return facts_.row_bytes * static_cast<double>(std::min(rows, all));
  const io::NpyHeader& keys = arrays_->header("keys", name_);
  const double key_bytes = block_item_bytes(keys) * row_items(keys);
  Index most = 0;
  for (Index first = 0; first < all; first += rows)
    most = std::max<Index>(most, offsets_[static_cast<std::size_t>(std::min(all, first + rows))] -
                                     offsets_[static_cast<std::size_t>(first)]);
  const double without_keys =
      facts_.row_bytes - key_bytes * static_cast<double>(offsets_.back()) / static_cast<double>(all);
  return without_keys * static_cast<double>(std::min(rows, all)) + key_bytes * static_cast<double>(most);
}

void SetFileReader::start_at(Index row) {
  ensure(next_row_ == 0, name_, ": rows were read before");
  if (row == 0) return;
  skipped_ = true;
  next_row_ = row;
  io::NpzReader& file = arrays_->file;
  if (facts_.outputs > 0) file.skip_rows("y", row);
  if (facts_.sequence_length > 0) return file.skip_rows("tokens", row);
  file.skip_rows("query", row);
  file.skip_rows("keys", offsets_.empty() ? row : offsets_[static_cast<std::size_t>(row)]);
}

Sets SetFileReader::next_ragged(Index rows) {
  const auto begin = offsets_.begin() + next_row_;
  const Index first_key = *begin, keys = begin[rows] - first_key;
  std::vector<std::int64_t> offsets(begin, begin + rows + 1);
  for (std::int64_t& offset : offsets) offset -= first_key;
  Array query = arrays_->tokens("query", next_row_, rows, name_);
  return Sets::from_ragged(std::move(query), arrays_->tokens("keys", first_key, keys, name_),
                           std::move(offsets), name_);
}

Sets SetFileReader::next_sets(Index rows) {
  if (facts_.sequence_length > 0)
    return Sets::from_sequence(arrays_->tokens("tokens", next_row_, rows, name_), name_);
  if (!offsets_.empty()) return next_ragged(rows);
  Array query = arrays_->tokens("query", next_row_, rows, name_);
  return Sets::from_arrays(std::move(query), arrays_->tokens("keys", next_row_, rows, name_), name_);
}

LabelledSets SetFileReader::next(Index rows) {
  require(rows > 0 && next_row_ + rows <= facts_.rows, name_, ": ", rows, " rows asked for, ",
          facts_.rows - next_row_, " are left");
  Sets sets = next_sets(rows);
  Targets targets;
  if (facts_.outputs > 0)
    targets = make_targets(arrays_->file.read_rows("y", rows), sets,
                           next_row_ * facts_.sets_in_row() * facts_.outputs);
  next_row_ += rows;
  return {std::move(sets), std::move(targets)};
}

void SetFileReader::finish() {
  if (!skipped_ && next_row_ == facts_.rows) arrays_->file.finish();
}

}  // namespace headlens
