// The sets of .npz files a block at a time, for files larger than memory: what load_sets and
// load_labelled_sets hold at once, with the same checks and errors.
//
//   SetReader reader("test.npz", DataLayout::sets, Labels::ignored, execution);
//   while (reader.remaining() > 0) use(reader.next(1000));
//
// Shapes and offsets are checked at once, values when their block is read, and the checksums of all arrays
// when the last block is. So an error may come late: results are good once everything was read. Of the file
// only the offsets of ragged sets are held, 8 bytes per set.
//
// A folder (its *.npz) or a pattern ("part-*.npz") is read as one list of sets, file after file in the order
// of the names. Where several ranks work together (ranks.hpp), each reads its own part of that list:
// contiguous rows, in the order of the ranks, their numbers equal up to one. No checksum is compared of a
// file that several ranks share.
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
  Index first = 0;    // number of its first set in this part
  LabelledSets data;  // no targets where labels are ignored
};

enum class RankShare {
  all,   // everything, on every rank
  mine,  // the part of this rank
};

class SetReader {
 public:
  SetReader(const std::filesystem::path& path, DataLayout layout, Labels labels, const Execution& execution,
            RankShare share = RankShare::mine);
  ~SetReader();

  Index count() const { return rows_ * sets_in_row(); }  // of this part
  // As Sets has them, of all sets.
  Index dim() const { return dim_; }
  Index max_keys() const { return whole_.max_keys; }
  bool equal_sizes() const { return whole_.equal_sizes; }
  bool is_sequence() const { return sequence_length_ > 0; }
  Index sequence_length() const { return sequence_length_; }
  const std::string& name() const { return name_; }
  Index outputs() const { return outputs_; }  // q; 0 where labels are ignored
  const Whole& whole() const { return whole_; }

  Index rows() const { return rows_; }                   // of this part: sets, or whole sequences
  Index remaining() const { return rows_ - next_row_; }  // rows
  double row_bytes() const;                              // of a block, for every row, on average
  double largest_block_bytes(Index rows) const;          // of the blocks, if all have so many rows

  SetBlock next(Index most_rows);

 private:
  class Files;
  Index sets_in_row() const { return sequence_length_ > 0 ? sequence_length_ : 1; }

  std::unique_ptr<Files> files_;
  std::string name_;
  Whole whole_;
  Index rows_ = 0, next_row_ = 0, dim_ = 0, sequence_length_ = 0, outputs_ = 0;
};

}  // namespace headlens
