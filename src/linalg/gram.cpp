#include "linalg/gram.hpp"

#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
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

}  // namespace

void add_outer(MatrixView<const float> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::no, rows, gram, threads);
}
void add_outer(MatrixView<const double> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::no, rows, gram, threads);
}
void add_inner(MatrixView<const float> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::yes, rows, gram, threads);
}
void add_inner(MatrixView<const double> rows, MatrixView<double> gram, int threads) {
  accumulate(Trans::yes, rows, gram, threads);
}

}  // namespace headlens
