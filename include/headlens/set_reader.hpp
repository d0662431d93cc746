// The sets of an .npz file a block at a time, for files larger than memory: what load_sets and
// load_labelled_sets hold at once, with the same checks and errors.
//
//   SetReader reader("test.npz", DataLayout::sets, Labels::ignored, execution);
//   while (reader.remaining() > 0) use(reader.next(1000));
//
// Shapes and offsets are checked at once, values when their block is read, and the checksums of all arrays
// when the last block is. So an error may come late: results are good once everything was read. Of the file
// only the offsets of ragged sets are held, 8 bytes per set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/sets.hpp"

namespace headlens {

enum class Labels { ignored, needed };

struct SetBlock {
  Index first = 0;    // number of its first set in the file
  LabelledSets data;  // no targets where labels are ignored
};

class SetReader {
 public:
  SetReader(const std::filesystem::path& path, DataLayout layout, Labels labels, const Execution& execution);
  ~SetReader();

  // As Sets has them, of the whole file.
  Index count() const { return rows_ * (sequence_length_ > 0 ? sequence_length_ : 1); }
  Index dim() const { return dim_; }
  Index max_keys() const { return max_keys_; }
  bool equal_sizes() const { return equal_sizes_; }
  bool is_sequence() const { return sequence_length_ > 0; }
  Index sequence_length() const { return sequence_length_; }
  const std::string& name() const { return name_; }
  Index outputs() const { return outputs_; }  // q; 0 where labels are ignored

  Index rows() const { return rows_; }                   // sets, or whole sequences
  Index remaining() const { return rows_ - next_row_; }  // rows
  double row_bytes() const;                              // of a block, for every row, on average
  double largest_block_bytes(Index rows) const;          // of the blocks, if all have so many rows

  SetBlock next(Index most_rows);

 private:
  class Arrays;
  Sets next_sets(Index rows);
  Sets next_ragged(Index rows);

  std::unique_ptr<Arrays> arrays_;
  std::string name_;
  std::vector<std::int64_t> offsets_;
  Index rows_ = 0, next_row_ = 0, dim_ = 0, max_keys_ = 0, sequence_length_ = 0, outputs_ = 0;
  bool equal_sizes_ = true;
};

}  // namespace headlens
