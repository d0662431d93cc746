#include "linalg/gram.hpp"

#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/single.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

// With Trans::no the rows of `rows` are multiplied, with Trans::yes its columns.
template <class T>
MatrixView<const T> slab(Trans trans, MatrixView<const T> rows, Tile tile, Tile panel) {
  return trans == Trans::no ? rows.block(tile.begin, panel.begin, tile.size, panel.size)
                            : rows.block(panel.begin, tile.begin, panel.size, tile.size);
}

// out = a a^T + beta out (a and b the same) or a b^T + beta out, or the same with the factors transposed.
template <class T>
void product(Trans trans, MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> out) {
  if (a.data == b.data) return syrk(trans, T{1}, a, beta, out);
  gemm(trans, trans == Trans::no ? Trans::yes : Trans::no, T{1}, a, b, beta, out);
}

void add_tile(Trans trans, MatrixView<const double> rows, Tile i, Tile j, MatrixView<double> out,
              Buffer<double>&) {
  const Tile all{0, trans == Trans::no ? rows.cols : rows.rows};
  product(trans, slab(trans, rows, i, all), slab(trans, rows, j, all), 1.0, out);
}

void add_tile(Trans trans, MatrixView<const float> rows, Tile i, Tile j, MatrixView<double> out,
              Buffer<float>& scratch) {
  if (scratch.size() == 0) scratch = Buffer<float>(kLargestSquareTile * kLargestSquareTile);
  const Index depth = trans == Trans::no ? rows.cols : rows.rows;
  const MatrixView<float> sum(scratch.data(), i.size, j.size);
  for (Index p = 0; p < tile_count(depth, kGramPanel); ++p) {
    const Tile panel = tile_at(depth, kGramPanel, p);
    product(trans, slab(trans, rows, i, panel), slab(trans, rows, j, panel), 0.0F, sum);
    for (Index r = 0; r < i.size; ++r) {
      const Index end = i.begin == j.begin ? r + 1 : j.size;
      for (Index c = 0; c < end; ++c) out(r, c) += static_cast<double>(sum(r, c));
    }
  }
}

template <class T>
void accumulate(Trans trans, MatrixView<const T> rows, MatrixView<double> gram, int threads) {
  const Index size = trans == Trans::no ? rows.rows : rows.cols;
  ensure(gram.rows == size && gram.cols == size, "gram: rows (", rows.rows, " x ", rows.cols, ") into (",
         gram.rows, " x ", gram.cols, ")");
  if (rows.rows == 0 || rows.cols == 0) return;
  const Index tile = square_tile(size);
  const double flops = double(size) * double(rows.rows) * double(rows.cols);
  std::vector<Buffer<T>> scratch(static_cast<std::size_t>(threads));
  parallel_for(threads_for(flops, threads), lower_tile_count(tile_count(size, tile)),
               [&](Index item, int worker) {
                 const TilePair pair = lower_tile(item);
                 const Tile i = tile_at(size, tile, pair.row), j = tile_at(size, tile, pair.col);
                 add_tile(trans, rows, i, j, gram.block(i.begin, j.begin, i.size, j.size),
                          scratch[std::size_t(worker)]);
               });
}

// Float into float. Of kDepth summed items all vectors are packed, kSingleLanes side by side, step by step:
// the same packing serves as rows and as columns of a block.
class SingleGram {
 public:
  SingleGram(Trans trans, MatrixView<const float> from, MatrixView<float> gram)
      : trans_(trans),
        from_(from),
        gram_(gram),
        size_(trans == Trans::no ? from.rows : from.cols),
        depth_(trans == Trans::no ? from.cols : from.rows),
        groups_(tile_count(size_, kSingleLanes)),
        packed_(groups_ * kSingleLanes * kDepth),
        kernels_(single_kernels(simd_level())) {
    ensure(gram.rows == size_ && gram.cols == size_, "gram: rows (", from.rows, " x ", from.cols, ") into (",
           gram.rows, " x ", gram.cols, ")");
  }

  void add(int threads) {
    threads = threads_for(double(size_) * double(size_) * double(depth_), threads);
    for (Index p = 0; p < tile_count(depth_, kDepth); ++p) {
      const Tile panel = tile_at(depth_, kDepth, p);
      parallel_for(threads, groups_, [&](Index group, int) { pack(group, panel); });
      parallel_for(threads, tile_count(groups_, kGroups), [&](Index item, int) {
        const Tile columns = tile_at(groups_, kGroups, item);
        for (Index row = columns.begin; row < groups_; ++row)
          for (Index c = columns.begin; c < std::min(row + 1, columns.begin + columns.size); ++c)
            add_block(row, c, panel.size);
      });
    }
  }

 private:
  static constexpr Index kDepth = 256;  // a packed group, 32 KiB, stays in the nearest cache
  static constexpr Index kGroups = 8;   // groups of columns that each group of rows meets in turn

  float* group(Index g) { return packed_.data() + g * kSingleLanes * kDepth; }

  void pack(Index g, Tile panel) {
    const Tile lanes = tile_at(size_, kSingleLanes, g);
    float* to = group(g);
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
  Buffer<float> packed_;
  SingleKernels kernels_;
};

}  // namespace

void add_outer(MatrixView<const float> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::no, rows, gram, threads);
}
void add_outer(MatrixView<const double> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::no, rows, gram, threads);
}
void add_outer(MatrixView<const float> rows, MatrixView<float> gram, int threads) {
  SingleGram(Trans::no, rows, gram).add(threads);
}
void add_inner(MatrixView<const float> rows, MatrixView<float> gram, int threads) {
  SingleGram(Trans::yes, rows, gram).add(threads);
}
void add_inner(MatrixView<const float> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::yes, rows, gram, threads);
}
void add_inner(MatrixView<const double> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::yes, rows, gram, threads);
}

}  // namespace headlens
