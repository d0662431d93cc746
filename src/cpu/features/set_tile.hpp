// Sets, packed for the feature maps: converted to T, positions added to the keys.
#pragma once

#include <vector>

#include "cpu/features/rfa.hpp"
#include "features/positions.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

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

}  // namespace headlens::cpu
