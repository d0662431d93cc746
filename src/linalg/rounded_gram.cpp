#include "linalg/rounded_gram.hpp"

#include <algorithm>
#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/single.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

// With Trans::no the rows of `from` are the vectors, with Trans::yes its columns. All vectors are packed,
// kSingleLanes side by side: the same packing serves as rows and as columns of a block.
class RoundedGram {
 public:
  RoundedGram(Trans trans, MatrixView<const float> from, MatrixView<float> gram)
      : trans_(trans),
        from_(from),
        gram_(gram),
        size_(trans == Trans::no ? from.rows : from.cols),
        depth_(trans == Trans::no ? from.cols : from.rows),
        groups_(tile_count(size_, kSingleLanes)),
        kernels_(single_kernels(simd_level())),
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
    if (trans_ == Trans::yes && lanes.size == kSingleLanes)
      return kernels_.round_group(panel.size, &from_(panel.begin, lanes.begin), from_.stride, integers,
                                  units);
    if (buffer.size() == 0) buffer = Buffer<float>(kSingleLanes * kRoundedSteps);
    gather(lanes, panel, buffer.data());
    kernels_.round_group(panel.size, buffer.data(), kSingleLanes, integers, units);
  }

  // Vectors side by side, a step a row; zeros beyond the last.
  void gather(Tile lanes, Tile panel, float* to) const {
    if (lanes.size < kSingleLanes) std::fill_n(to, kSingleLanes * panel.size, 0.0F);
    if (trans_ == Trans::yes) {
      for (Index k = 0; k < panel.size; ++k)
        std::copy_n(from_.row(panel.begin + k) + lanes.begin, lanes.size, to + k * kSingleLanes);
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

  Trans trans_;
  MatrixView<const float> from_;
  MatrixView<float> gram_;
  Index size_, depth_, groups_;
  SingleKernels kernels_;
  Buffer<std::int32_t> integers_;
  Buffer<float> units_;
};

}  // namespace

void add_rounded_outer(MatrixView<const float> rows, MatrixView<float> gram, int threads) {
  RoundedGram(Trans::no, rows, gram).add(threads);
}
void add_rounded_inner(MatrixView<const float> rows, MatrixView<float> gram, int threads) {
  RoundedGram(Trans::yes, rows, gram).add(threads);
}

}  // namespace headlens
