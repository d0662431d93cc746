// The sets of one .npz file, from a row on, a block at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headlens/set_reader.hpp"

namespace headlens {

// What a file announces; plain numbers, for ranks tell each other.
struct FileFacts {
  Index rows = 0;  // sets, or whole sequences
  Index dim = 0, max_keys = 0, first_keys = 0, sequence_length = 0;
  Index outputs = 0, target_axes = 0;  // q and the axes of y; 0 where labels are ignored
  Index equal_sizes = 1, double_tokens = 0;
  double row_bytes = 0;     // of a block, for every row, on average
  double widest_bytes = 0;  // of the row with the most keys

  Index sets_in_row() const { return sequence_length > 0 ? sequence_length : 1; }
  bool operator==(const FileFacts&) const = default;
};

class SetFileReader {
 public:
  SetFileReader(const std::filesystem::path& path, DataLayout layout, Labels labels,
                const Execution& execution);
  ~SetFileReader();

  const FileFacts& facts() const { return facts_; }
  double largest_block_bytes(Index rows) const;  // of the blocks, if all have so many rows

  void start_at(
      Index row);  // before the first block. Stored arrays are not read up to there, deflated ones are
  LabelledSets next(Index rows);
  void finish();  // compares the checksums of all arrays, if every row was read

 private:
  class Arrays;
  Sets next_sets(Index rows);
  Sets next_ragged(Index rows);
  void look_at_tokens(DataLayout layout, const Execution& execution);
  void weigh();

  std::unique_ptr<Arrays> arrays_;
  std::string name_;
  std::vector<std::int64_t> offsets_;
  FileFacts facts_;
  Index next_row_ = 0;
  bool skipped_ = false;
};

}  // namespace headlens
