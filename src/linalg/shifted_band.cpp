#include "linalg/shifted_band.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/lapack.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index b = kBandWidth;
constexpr Index kRowTile = 128;

void trtri(const int* n, double* a, int* info) { dtrtri_("U", "N", n, a, n, info, 1, 1); }
void trtri(const int* n, float* a, int* info) { strtri_("U", "N", n, a, n, info, 1, 1); }

// The transpose of a lower triangle's inverse, zeros included.
template <class T>
Matrix<T> inverse_transposed(MatrixView<const T> lower) {
  Matrix<T> inverse(lower.rows, lower.cols);
  copy_rows(lower, inverse);
  const int n = blas_int(lower.rows);
  int info = 0;
  trtri(&n, inverse.data(), &info);
  ensure(info == 0, "trtri: ", info);
  auto out = Matrix<T>::zeros(lower.rows, lower.cols);
  for (Index i = 0; i < lower.rows; ++i)
    for (Index j = 0; j <= i; ++j) out(j, i) = inverse(i, j);
  return out;
}

// sums[i] += |row i|^2, in four partial sums that the processor can overlap.
template <class T>
void add_squares(MatrixView<const T> rows, T* sums) {
  for (Index i = 0; i < rows.rows; ++i) {
    const T* x = rows.row(i);
    T part[4] = {0, 0, 0, 0};
    Index j = 0;
    for (; j + 4 <= rows.cols; j += 4)
      for (Index k = 0; k < 4; ++k) part[k] += x[j + k] * x[j + k];
    for (; j < rows.cols; ++j) part[0] += x[j] * x[j];
    sums[i] += (part[0] + part[1]) + (part[2] + part[3]);
  }
}

template <class T>
double row_flops(MatrixView<const T> rows) {
  return 4.0 * double(rows.rows) * double(rows.cols) * b;
}

}  // namespace

template <class T>
ShiftedBand<T>::ShiftedBand(const BandReduction<T>& band, T shift) : size_(band.size()) {
  Matrix<T> previous;
  for (Index k = 0; k < band.block_count(); ++k) {
    const auto given = band.diagonal(k);
    Block block;
    Matrix<T> lower(given.rows, given.rows);
    copy_rows(given, lower);
    for (Index i = 0; i < given.rows; ++i) lower(i, i) += shift;
    if (k > 0) {
      block.coupling = Matrix<T>(given.rows, b);
      copy_rows(band.coupling(k), block.coupling);
      trsm(Side::right, Trans::yes, previous, block.coupling);
      syrk(Trans::no, T{-1}, block.coupling, T{1}, lower);
    }
    result_ = cholesky_tile(lower);
    if (!result_.ok()) {
      result_.pivot += k * b;
      return;
    }
    block.inverse_t = inverse_transposed<T>(lower);
    if (k > 0) {
      block.carry_t = Matrix<T>(b, given.rows);
      gemm(Trans::yes, Trans::no, T{1}, block.coupling, block.inverse_t, T{0}, block.carry_t);
    }
    blocks_.push_back(std::move(block));
    previous = std::move(lower);
  }
}

template <class T>
void ShiftedBand<T>::check(Index cols) const {
  ensure(result_.ok(), "shifted band: used though not positive definite");
  ensure(cols == size_, "shifted band: rows have ", cols, " columns, the matrix has ", size_);
}

// y = z D_k^T - before E_k^T
template <class T>
void ShiftedBand<T>::step(Index k, MatrixView<const T> z, MatrixView<const T> before, MatrixView<T> y) const {
  const Block& block = blocks_[std::size_t(k)];
  gemm(Trans::no, Trans::no, T{1}, z, block.inverse_t, T{0}, y);
  if (k > 0) gemm(Trans::no, Trans::no, T{-1}, before, block.carry_t, T{1}, y);
}

template <class T>
void ShiftedBand<T>::forward(MatrixView<T> rows, MatrixView<T> scratch) const {
  MatrixView<T> before;
  for (Index k = 0; k < Index(blocks_.size()); ++k) {
    const Tile j = tile_at(size_, b, k);
    const auto z = rows.block(0, j.begin, rows.rows, j.size);
    const auto y = scratch.block(0, 0, rows.rows, j.size);
    step(k, z, before, y);
    copy_rows(y, z);
    before = z;
  }
}

template <class T>
void ShiftedBand<T>::backward(MatrixView<T> rows, MatrixView<T> scratch) const {
  MatrixView<T> after;
  for (Index k = Index(blocks_.size()) - 1; k >= 0; --k) {
    const Tile j = tile_at(size_, b, k);
    const auto z = rows.block(0, j.begin, rows.rows, j.size);
    const auto y = scratch.block(0, 0, rows.rows, j.size);
    if (after.data) gemm(Trans::no, Trans::no, T{-1}, after, blocks_[std::size_t(k) + 1].coupling, T{1}, z);
    gemm(Trans::no, Trans::yes, T{1}, z, blocks_[std::size_t(k)].inverse_t, T{0}, y);
    copy_rows(y, z);
    after = z;
  }
}

template <class T>
void ShiftedBand<T>::solve(MatrixView<T> rows, int threads) const {
  check(rows.cols);
  parallel_for(threads_for(row_flops<T>(rows), threads), tile_count(rows.rows, kRowTile),
               [&](Index item, int) {
                 const Tile i = tile_at(rows.rows, kRowTile, item);
                 Matrix<T> scratch(i.size, b);
                 forward(rows.block(i.begin, 0, i.size, rows.cols), scratch);
                 backward(rows.block(i.begin, 0, i.size, rows.cols), scratch);
               });
}

// |y|^2 of y = L^-1 z, forward substitution in which a block of y lives only until the next one is known.
template <class T>
void ShiftedBand<T>::add_norms(MatrixView<const T> rows, T* out) const {
  Matrix<T> even(rows.rows, b), odd(rows.rows, b);
  MatrixView<T> before = odd, now = even;
  for (Index k = 0; k < Index(blocks_.size()); ++k) {
    const Tile j = tile_at(size_, b, k);
    const auto y = now.block(0, 0, rows.rows, j.size);
    step(k, rows.block(0, j.begin, rows.rows, j.size), before, y);
    add_squares<T>(y, out);
    std::swap(before, now);
  }
}

template <class T>
void ShiftedBand<T>::quadratic_forms(MatrixView<const T> rows, T* out, int threads) const {
  check(rows.cols);
  std::fill_n(out, rows.rows, T{0});
  parallel_for(threads_for(row_flops<T>(rows), threads), tile_count(rows.rows, kRowTile),
               [&](Index item, int) {
                 const Tile i = tile_at(rows.rows, kRowTile, item);
                 add_norms(rows.block(i.begin, 0, i.size, rows.cols), out + i.begin);
               });
}

template class ShiftedBand<float>;
template class ShiftedBand<double>;

}  // namespace headlens
