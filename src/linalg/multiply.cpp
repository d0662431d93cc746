#include "linalg/multiply.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
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
class PartedProduct {
 public:
  PartedProduct(const TallProduct& of, Index parts)
      : of_(of),
        across_(tile_count(of.c.cols, kTileCols)),
        parts_(std::clamp<Index>(parts, 1, std::max<Index>(1, of.a.rows / kPartRows))),
        others_((parts_ - 1) * of.c.rows, of.c.cols),
        ended_(static_cast<std::size_t>(tall_tiles(of))) {}
  static Index tall_tiles(const TallProduct& of) {
    return tile_count(of.c.rows, kTileRows) * tile_count(of.c.cols, kTileCols);
  }
  Index items() const { return parts_ * tiles(); }
  void work(Index item) {
    const Index tile = item % tiles(), part = item / tiles();
    const Tile i = tile_at(of_.c.rows, kTileRows, tile / across_),
               j = tile_at(of_.c.cols, kTileCols, tile % across_),
               rows = tile_at(of_.a.rows, (of_.a.rows + parts_ - 1) / parts_, part);
    gemm(Trans::yes, Trans::no, 1.0f, of_.a.block(rows.begin, i.begin, rows.size, i.size),
         of_.b.block(rows.begin, j.begin, rows.size, j.size), 0.0f, sum_of(part, i, j));
    if (++ended_[static_cast<std::size_t>(tile)] == parts_) add_parts(i, j);
  }

 private:
  Index tiles() const { return static_cast<Index>(ended_.size()); }
  MatrixView<float> sum_of(Index part, Tile i, Tile j) {
    return part == 0 ? of_.c.block(i.begin, j.begin, i.size, j.size)
                     : others_.view().block((part - 1) * of_.c.rows + i.begin, j.begin, i.size, j.size);
  }
  void add_parts(Tile i, Tile j) {
    const MatrixView<float> sum = sum_of(0, i, j);
    for (Index part = 1; part < parts_; ++part) {
      const MatrixView<float> other = sum_of(part, i, j);
      for (Index row = 0; row < i.size; ++row)
        for (Index col = 0; col < j.size; ++col) sum(row, col) += other(row, col);
    }
  }

  TallProduct of_;
  Index across_, parts_;
  Matrix<float> others_;
  std::vector<std::atomic<Index>> ended_;  // parts of every tile
};

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

void multiply_tall(const std::vector<TallProduct>& all, int threads) {
  Index tiles = 1;
  double flops = 0;
  for (const TallProduct& each : all) {
    ensure(each.a.rows == each.b.rows && each.c.rows == each.a.cols && each.c.cols == each.b.cols,
           "multiply_tall: into (", each.c.rows, " x ", each.c.cols, ") from (", each.a.rows, " x ",
           each.a.cols, ") and (", each.b.rows, " x ", each.b.cols, ")");
    tiles += PartedProduct::tall_tiles(each);
    flops += 2.0 * double(each.c.rows) * double(each.c.cols) * double(each.a.rows);
  }
  std::vector<std::unique_ptr<PartedProduct>> products;
  std::vector<std::pair<PartedProduct*, Index>> items;
  for (const TallProduct& each : all) {
    products.push_back(std::make_unique<PartedProduct>(each, kTallItems / tiles + 1));
    for (Index item = 0; item < products.back()->items(); ++item)
      items.emplace_back(products.back().get(), item);
  }
  parallel_for(threads_for(flops, threads), static_cast<Index>(items.size()), [&](Index i, int) {
    const auto [product, item] = items[static_cast<std::size_t>(i)];
    product->work(item);
  });
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
