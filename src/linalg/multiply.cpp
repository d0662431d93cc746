#include "linalg/multiply.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kTileRows = 256;
constexpr Index kTileCols = 512;

// Parts of a tall product: tiles and parts together are enough for some threads, and a part has rows enough
// that packing its factors is little beside their product.
constexpr Index kTallItems = 16, kPartRows = 256;

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

// A tall product cut into tiles of C and parts of the rows. The first part goes to C, the others to arrays of
// their own, and whoever ends the last part of a tile adds these to C, in order.
template <class T>
class TallProduct {
 public:
  TallProduct(T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> c)
      : alpha_(alpha),
        beta_(beta),
        a_(a),
        b_(b),
        c_(c),
        across_(tile_count(c.cols, kTileCols)),
        ended_(static_cast<std::size_t>(tile_count(c.rows, kTileRows) * across_)) {
    const Index most = std::max<Index>(1, a.rows / kPartRows);
    parts_ = std::clamp<Index>(kTallItems / std::max<Index>(1, tiles()), 1, most);
    others_ = Matrix<T>((parts_ - 1) * c.rows, c.cols);
  }
  Index items() const { return parts_ * tiles(); }
  void work(Index item) {
    const Index tile = item % tiles(), part = item / tiles();
    const Tile i = tile_at(c_.rows, kTileRows, tile / across_),
               j = tile_at(c_.cols, kTileCols, tile % across_),
               rows = tile_at(a_.rows, (a_.rows + parts_ - 1) / parts_, part);
    gemm(Trans::yes, Trans::no, alpha_, a_.block(rows.begin, i.begin, rows.size, i.size),
         b_.block(rows.begin, j.begin, rows.size, j.size), part == 0 ? beta_ : T(0), sum_of(part, i, j));
    if (++ended_[static_cast<std::size_t>(tile)] == parts_) add_parts(i, j);
  }

 private:
  Index tiles() const { return static_cast<Index>(ended_.size()); }
  MatrixView<T> sum_of(Index part, Tile i, Tile j) {
    return part == 0 ? c_.block(i.begin, j.begin, i.size, j.size)
                     : others_.view().block((part - 1) * c_.rows + i.begin, j.begin, i.size, j.size);
  }
  void add_parts(Tile i, Tile j) {
    const MatrixView<T> sum = sum_of(0, i, j);
    for (Index part = 1; part < parts_; ++part) {
      const MatrixView<T> other = sum_of(part, i, j);
      for (Index row = 0; row < i.size; ++row)
        for (Index col = 0; col < j.size; ++col) sum(row, col) += other(row, col);
    }
  }

  T alpha_, beta_;
  MatrixView<const T> a_, b_;
  MatrixView<T> c_;
  Index across_, parts_ = 1;
  Matrix<T> others_;
  std::vector<std::atomic<Index>> ended_;  // parts of every tile
};

template <class T>
void multiply_tall_of(T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> c,
                      int threads) {
  ensure(a.rows == b.rows && c.rows == a.cols && c.cols == b.cols, "multiply_tall: into (", c.rows, " x ",
         c.cols, ") from (", a.rows, " x ", a.cols, ") and (", b.rows, " x ", b.cols, ")");
  TallProduct<T> product(alpha, a, b, beta, c);
  const double flops = 2.0 * double(c.rows) * double(c.cols) * double(a.rows);
  parallel_for(threads_for(flops, threads), product.items(), [&](Index item, int) { product.work(item); });
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

void multiply_tall(double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
                   MatrixView<double> c, int threads) {
  multiply_tall_of(alpha, a, b, beta, c, threads);
}
void multiply_tall(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                   MatrixView<float> c, int threads) {
  multiply_tall_of(alpha, a, b, beta, c, threads);
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
