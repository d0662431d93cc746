#include "cpu/products/rounded_gram.hpp"

#include <algorithm>
#include <vector>

#include "base/parallel.hpp"
#include "cpu/products/float_products.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

// The vectors are the rows of `from`, or its `columns`. All are packed, kSingleLanes side by side: the same
// packing serves as rows and as columns of a block.
class RoundedGram {
 public:
  RoundedGram(MatrixView<const float> from, const std::vector<Index>* columns, MatrixView<float> gram)
      : from_(from),
        columns_(columns ? columns->data() : nullptr),
        gram_(gram),
        size_(columns ? std::ssize(*columns) : from.rows),
        depth_(columns ? from.rows : from.cols),
        groups_(tile_count(size_, kSingleLanes)),
        kernels_(float_products(simd_level())),
        integers_(groups_ * kernels_.group_items),
        units_(groups_ * kSingleLanes) {
    ensure(gram.rows == size_ && gram.cols == size_, "gram: rows (", from.rows, " x ", from.cols, ") into (",
           gram.rows, " x ", gram.cols, ")");
  }

  void add(int threads) {
    threads = threads_for(double(size_) * double(size_) * double(depth_), threads);
    std::vector<Buffer<float>> lanes(static_cast<std::size_t>(threads));
    for (Index p = 0; p < tile_count(depth_, kRoundedSteps); ++p) {
      const Tile panel = tile_at(depth_, kRoundedSteps, p);
      parallel_for(threads, groups_,
                   [&](Index group, int worker) { round(group, panel, lanes[std::size_t(worker)]); });
      parallel_for(threads, tile_count(groups_, kGroups), [&](Index item, int) {
        const Tile columns = tile_at(groups_, kGroups, item);
        for (Index row = columns.begin; row < groups_; ++row)
          for (Index c = columns.begin; c < std::min(row + 1, columns.begin + columns.size); ++c)
            add_block(row, c, panel.size);
      });
    }
  }

 private:
  static constexpr Index kGroups = 8;  // groups of columns that each group of rows meets in turn

  RoundedGroup group(Index g) const {
    return {integers_.data() + g * kernels_.group_items, units_.data() + g * kSingleLanes};
  }

  void round(Index g, Tile panel, Buffer<float>& buffer) {
    const Tile lanes = tile_at(size_, kSingleLanes, g);
    std::int32_t* integers = integers_.data() + g * kernels_.group_items;
    float* units = units_.data() + g * kSingleLanes;
    if (are_neighbours(lanes))
      return kernels_.round_group(panel.size, &from_(panel.begin, columns_[lanes.begin]), from_.stride,
                                  integers, units);
    if (buffer.size() == 0) buffer = Buffer<float>(kSingleLanes * kRoundedSteps);
    gather(lanes, panel, buffer.data());
    kernels_.round_group(panel.size, buffer.data(), kSingleLanes, integers, units);
  }

  bool are_neighbours(Tile lanes) const {
    if (!columns_ || lanes.size < kSingleLanes) return false;
    for (Index r = 1; r < kSingleLanes; ++r)
      if (columns_[lanes.begin + r] != columns_[lanes.begin] + r) return false;
    return true;
  }

  // Vectors side by side, one step per row; zeros beyond the last.
  void gather(Tile lanes, Tile panel, float* to) const {
    if (lanes.size < kSingleLanes) std::fill_n(to, kSingleLanes * panel.size, 0.0F);
    if (columns_) {
      for (Index k = 0; k < panel.size; ++k)
        for (Index r = 0; r < lanes.size; ++r)
          to[k * kSingleLanes + r] = from_(panel.begin + k, columns_[lanes.begin + r]);
      return;
    }
    constexpr Index kLine = 16;  // a cache line of each row at a time
    for (Index first = 0; first < panel.size; first += kLine)
      for (Index r = 0; r < lanes.size; ++r) {
        const float* row = from_.row(lanes.begin + r) + panel.begin;
        for (Index k = first; k < std::min(panel.size, first + kLine); ++k) to[k * kSingleLanes + r] = row[k];
      }
  }

  // Blocks on the diagonal and at the end go through a buffer: nothing else than the lower triangle is
  // written.
  void add_block(Index row, Index column, Index steps) {
    const Tile i = tile_at(size_, kSingleLanes, row), j = tile_at(size_, kSingleLanes, column);
    if (row != column && i.size == kSingleLanes)
      return kernels_.add_block(steps, group(column), group(row), &gram_(i.begin, j.begin), gram_.stride);
    float block[kSingleLanes * kSingleLanes] = {};
    kernels_.add_block(steps, group(column), group(row), block, kSingleLanes);
    for (Index r = 0; r < i.size; ++r)
      for (Index c = 0; c < (row == column ? r + 1 : j.size); ++c)
        gram_(i.begin + r, j.begin + c) += block[r * kSingleLanes + c];
  }

  MatrixView<const float> from_;
  const Index* columns_;  // or none: rows
  MatrixView<float> gram_;
  Index size_, depth_, groups_;
  FloatProducts kernels_;
  Buffer<std::int32_t> integers_;
  Buffer<float> units_;
};

}  // namespace

void add_rounded_outer(MatrixView<const float> rows, MatrixView<float> gram, int threads) {
  RoundedGram(rows, nullptr, gram).add(threads);
}
void add_rounded_inner(MatrixView<const float> rows, const std::vector<Index>& columns,
                       MatrixView<float> gram, int threads) {
  RoundedGram(rows, &columns, gram).add(threads);
}

}  // namespace headlens::cpu
