// Sets, packed for the feature maps: converted to T, positions added to the keys.
#pragma once

#include <vector>

#include "features/rfa.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

// Sinusoidal encodings (positions, d): sin(i / 10000^(2j/d)) at 2j, cos at 2j + 1. Empty for Positions::none.
std::vector<double> position_table(Positions positions, Index count, Index dim);

template <class T>
class SetTile {
 public:
  // The sets [begin, end) of `sets`; `table` from position_table.
  void pack(const Sets& sets, Index begin, Index end, const std::vector<double>& table);
  PackedSets<T> view() const {
    return {static_cast<Index>(key_begin_.size()) - 1, dim_, queries_.data(), keys_.data(),
            key_begin_.data()};
  }

 private:
  Index dim_ = 0;
  std::vector<T> queries_;
  std::vector<T> keys_;
  std::vector<Index> key_begin_;
};

}  // namespace headlens
