#include "linalg/multiply.hpp"

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kTileRows = 256;
constexpr Index kTileCols = 512;

// Small enough for OpenBLAS's kernels that do not pack A: with the few columns of X, packing would cost as
// much as multiplying.
constexpr Index kSymmetricTile = 64;
constexpr Index kSymmetricChunk = 256;

template <class T>
MatrixView<const T> rows_of(Trans trans, MatrixView<const T> a, Tile tile) {
  return trans == Trans::no ? a.block(tile.begin, 0, tile.size, a.cols)
                            : a.block(0, tile.begin, a.rows, tile.size);
}

template <class T>
void multiply_of(Trans trans_a, Trans trans_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
                 MatrixView<T> c, int threads) {
  const Index depth = trans_a == Trans::no ? a.cols : a.rows;
  ensure(c.rows == (trans_a == Trans::no ? a.rows : a.cols) &&
             c.cols == (trans_b == Trans::no ? b.cols : b.rows),
         "multiply: into (", c.rows, " x ", c.cols, ") from (", a.rows, " x ", a.cols, ") and (", b.rows,
         " x ", b.cols, ")");
  const Trans columns = trans_b == Trans::no ? Trans::yes : Trans::no;
  const Index across = tile_count(c.cols, kTileCols);
  const double flops = 2.0 * double(c.rows) * double(c.cols) * double(depth);
  parallel_for(threads_for(flops, threads), tile_count(c.rows, kTileRows) * across, [&](Index item, int) {
    const Tile i = tile_at(c.rows, kTileRows, item / across);
    const Tile j = tile_at(c.cols, kTileCols, item % across);
    gemm(trans_a, trans_b, alpha, rows_of(trans_a, a, i), rows_of(columns, b, j), beta,
         c.block(i.begin, j.begin, i.size, j.size));
  });
}

// y += op(a) x, where op(a) is one tile high and the summed dimension is cut into chunks.
template <class T>
void add_product(Trans trans, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y) {
  for (Index k = 0; k < tile_count(x.rows, kSymmetricChunk); ++k) {
    const Tile chunk = tile_at(x.rows, kSymmetricChunk, k);
    const Trans columns = trans == Trans::no ? Trans::yes : Trans::no;
    gemm(trans, Trans::no, T{1}, rows_of(columns, a, chunk), x.block(chunk.begin, 0, chunk.size, x.cols),
         T{1}, y);
  }
}

template <class T>
void multiply_symmetric_of(Triangle stored, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                           int threads) {
  const Index n = a.rows;
  ensure(a.cols == n && x.rows == n && y.rows == n && x.cols == y.cols, "multiply_symmetric: (", n, " x ",
         a.cols, ") times (", x.rows, " x ", x.cols, ") into (", y.rows, " x ", y.cols, ")");
  const Trans left = stored == Triangle::lower ? Trans::no : Trans::yes;
  const Trans right = stored == Triangle::lower ? Trans::yes : Trans::no;
  const double flops = 2.0 * double(n) * double(n) * double(x.cols);
  parallel_for(threads_for(flops, threads), tile_count(n, kSymmetricTile), [&](Index item, int) {
    const Tile i = tile_at(n, kSymmetricTile, item);
    const Index end = i.begin + i.size;
    const auto out = y.block(i.begin, 0, i.size, y.cols);
    symm(stored, T{1}, a.block(i.begin, i.begin, i.size, i.size), x.block(i.begin, 0, i.size, x.cols), T{0},
         out);
    add_product<T>(
        left, left == Trans::no ? a.block(i.begin, 0, i.size, i.begin) : a.block(0, i.begin, i.begin, i.size),
        x.block(0, 0, i.begin, x.cols), out);
    add_product<T>(
        right,
        right == Trans::no ? a.block(i.begin, end, i.size, n - end) : a.block(end, i.begin, n - end, i.size),
        x.block(end, 0, n - end, x.cols), out);
  });
}

}  // namespace

void multiply(Trans trans_a, Trans trans_b, double alpha, MatrixView<const double> a,
              MatrixView<const double> b, double beta, MatrixView<double> c, int threads) {
  multiply_of(trans_a, trans_b, alpha, a, b, beta, c, threads);
}
void multiply(Trans trans_a, Trans trans_b, float alpha, MatrixView<const float> a, MatrixView<const float> b,
              float beta, MatrixView<float> c, int threads) {
  multiply_of(trans_a, trans_b, alpha, a, b, beta, c, threads);
}

void multiply_symmetric(Triangle stored, MatrixView<const double> a, MatrixView<const double> x,
                        MatrixView<double> y, int threads) {
  multiply_symmetric_of(stored, a, x, y, threads);
}
void multiply_symmetric(Triangle stored, MatrixView<const float> a, MatrixView<const float> x,
                        MatrixView<float> y, int threads) {
  multiply_symmetric_of(stored, a, x, y, threads);
}

}  // namespace headlens
