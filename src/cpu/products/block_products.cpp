#include "cpu/products/block_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.hpp"
#include "cpu/products/float_products.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kRows = 32;  // a converted tile stays in the cache next to the core
constexpr Index kColumns = 512;

// A tile as doubles: a view of `a` itself, or a converted copy. Features are rounded once, when they are
// computed; products with them are not rounded again.
MatrixView<const double> as_double(MatrixView<const double> tile, Buffer<double>&) { return tile; }
MatrixView<const double> as_double(MatrixView<const float> tile, Buffer<double>& buffer) {
  if (buffer.size() == 0) buffer = Buffer<double>(kRows * kColumns);
  for (Index i = 0; i < tile.rows; ++i)
    for (Index j = 0; j < tile.cols; ++j) buffer[i * tile.cols + j] = tile(i, j);
  return {buffer.data(), tile.rows, tile.cols};
}

// One column, float features: no conversion in memory, no BLAS.
bool add_column(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, int) { return false; }
bool add_column(MatrixView<const float> a, MatrixView<const double> b, MatrixView<double> out, int threads) {
  if (b.cols != 1 || b.stride != 1) return false;
  const FloatProducts kernels = float_products(simd_level());
  parallel_for(threads, tile_count(a.rows, kRows), [&](Index tile, int) {
    for (Index i = tile * kRows; i < std::min(a.rows, (tile + 1) * kRows); ++i)
      out(i, 0) += kernels.dot(a.cols, a.row(i), b.data);
  });
  return true;
}
bool add_transposed_column(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, int) {
  return false;
}
bool add_transposed_column(MatrixView<const float> a, MatrixView<const double> b, MatrixView<double> out,
                           int threads) {
  if (out.cols != 1 || out.stride != 1) return false;
  const FloatProducts kernels = float_products(simd_level());
  parallel_for(threads, tile_count(a.cols, kColumns), [&](Index tile, int) {
    const Index j = tile * kColumns;
    for (Index i = 0; i < a.rows; i += kRows)
      kernels.add_rows(std::min(kRows, a.rows - i), std::min(kColumns, a.cols - j), a.row(i) + j, a.stride,
                       b.row(i), b.stride, out.data + j);
  });
  return true;
}

}  // namespace

template <class T>
void add_product(MatrixView<const T> a, MatrixView<const double> b, MatrixView<double> out, int threads) {
  if (add_column(a, b, out, threads)) return;
  parallel_for(threads, tile_count(a.rows, kRows), [&](Index tile, int) {
    Buffer<double> buffer;
    const Index i = tile * kRows, rows = std::min(kRows, a.rows - i);
    for (Index j = 0; j < a.cols; j += kColumns) {
      const Index cols = std::min(kColumns, a.cols - j);
      gemm(Trans::no, Trans::no, 1.0, as_double(a.block(i, j, rows, cols), buffer),
           b.block(j, 0, cols, b.cols), 1.0, out.block(i, 0, rows, b.cols));
    }
  });
}

template <class T>
void add_transposed_product(MatrixView<const T> a, MatrixView<const double> b, MatrixView<double> out,
                            int threads) {
  if (add_transposed_column(a, b, out, threads)) return;
  parallel_for(threads, tile_count(a.cols, kColumns), [&](Index tile, int) {
    Buffer<double> buffer;
    const Index j = tile * kColumns, cols = std::min(kColumns, a.cols - j);
    for (Index i = 0; i < a.rows; i += kRows) {
      const Index rows = std::min(kRows, a.rows - i);
      gemm(Trans::yes, Trans::no, 1.0, as_double(a.block(i, j, rows, cols), buffer),
           b.block(i, 0, rows, b.cols), 1.0, out.block(j, 0, cols, b.cols));
    }
  });
}

template <class T>
ColumnMeans<T>::ColumnMeans(Index columns)
    : sums_(static_cast<std::size_t>(columns), 0.0),
      low_(sums_.size(), std::numeric_limits<T>::infinity()),
      high_(sums_.size(), -std::numeric_limits<T>::infinity()) {}

template <class T>
void ColumnMeans<T>::add(MatrixView<const T> rows, int threads) {
  rows_ += rows.rows;
  parallel_for(threads, tile_count(rows.cols, kColumns), [&](Index tile, int) {
    const Index first = tile * kColumns, last = std::min(rows.cols, first + kColumns);
    for (Index i = 0; i < rows.rows; ++i)
      for (Index j = first; j < last; ++j) {
        const auto c = static_cast<std::size_t>(j);
        sums_[c] += static_cast<double>(rows(i, j));
        low_[c] = std::min(low_[c], rows(i, j));
        high_[c] = std::max(high_[c], rows(i, j));
      }
  });
}

template <class T>
void ColumnMeans<T>::merge(comm::Communicator& ranks) {
  if (ranks.alone()) return;
  ranks.sum(sums_);
  rows_ = static_cast<Index>(ranks.sum(static_cast<double>(rows_)));
  std::vector<double> bounds(low_.begin(), low_.end());  // the least, and the least of what is negated
  for (const T high : high_) bounds.push_back(-static_cast<double>(high));
  ranks.least(bounds);
  for (std::size_t j = 0; j < low_.size(); ++j) {
    low_[j] = static_cast<T>(bounds[j]);
    high_[j] = static_cast<T>(-bounds[low_.size() + j]);
  }
}

template <class T>
void ColumnMeans<T>::finish(double* means, double* keep) const {
  constexpr double kRounding = 16 * std::numeric_limits<T>::epsilon();
  for (std::size_t j = 0; j < sums_.size(); ++j) {
    const double least = low_[j], most = high_[j];
    means[j] = sums_[j] / static_cast<double>(rows_);
    keep[j] = most - least > kRounding * std::max(std::abs(least), std::abs(most)) ? 1.0 : 0.0;
  }
}

template void add_product(MatrixView<const float>, MatrixView<const double>, MatrixView<double>, int);
template void add_product(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, int);
template void add_transposed_product(MatrixView<const float>, MatrixView<const double>, MatrixView<double>,
                                     int);
template void add_transposed_product(MatrixView<const double>, MatrixView<const double>, MatrixView<double>,
                                     int);
template class ColumnMeans<float>;
template class ColumnMeans<double>;

}  // namespace headlens::cpu
