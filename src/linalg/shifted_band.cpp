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

// The transpose of a lower triangle's inverse, zeros included.
Matrix<double> inverse_transposed(MatrixView<const double> lower) {
  Matrix<double> inverse(lower.rows, lower.cols);
  copy_rows(lower, inverse);
  const int n = blas_int(lower.rows);
  int info = 0;
  dtrtri_("U", "N", &n, inverse.data(), &n, &info, 1, 1);
  ensure(info == 0, "dtrtri: ", info);
  auto out = Matrix<double>::zeros(lower.rows, lower.cols);
  for (Index i = 0; i < lower.rows; ++i)
    for (Index j = 0; j <= i; ++j) out(j, i) = inverse(i, j);
  return out;
}

// sums[i] += |row i|^2, in four partial sums that the processor can overlap.
void add_squares(MatrixView<const double> rows, double* sums) {
  for (Index i = 0; i < rows.rows; ++i) {
    const double* x = rows.row(i);
    double part[4] = {0, 0, 0, 0};
    Index j = 0;
    for (; j + 4 <= rows.cols; j += 4)
      for (Index k = 0; k < 4; ++k) part[k] += x[j + k] * x[j + k];
    for (; j < rows.cols; ++j) part[0] += x[j] * x[j];
    sums[i] += (part[0] + part[1]) + (part[2] + part[3]);
  }
}

double row_flops(MatrixView<const double> rows) { return 4.0 * double(rows.rows) * double(rows.cols) * b; }

}  // namespace

ShiftedBand::ShiftedBand(const BandReduction& band, double shift) : size_(band.size()) {
  Matrix<double> previous;
  for (Index k = 0; k < band.block_count(); ++k) {
    const auto given = band.diagonal(k);
    Block block;
    Matrix<double> lower(given.rows, given.rows);
    copy_rows(given, lower);
    for (Index i = 0; i < given.rows; ++i) lower(i, i) += shift;
    if (k > 0) {
      block.coupling = Matrix<double>(given.rows, b);
      copy_rows(band.coupling(k), block.coupling);
      trsm(Side::right, Trans::yes, previous, block.coupling);
      syrk(Trans::no, -1.0, block.coupling, 1.0, lower);
    }
    result_ = cholesky_tile(lower);
    if (!result_.ok()) {
      result_.pivot += k * b;
      return;
    }
    block.inverse_t = inverse_transposed(lower);
    if (k > 0) {
      block.carry_t = Matrix<double>(b, given.rows);
      gemm(Trans::yes, Trans::no, 1.0, block.coupling, block.inverse_t, 0.0, block.carry_t);
    }
    blocks_.push_back(std::move(block));
    previous = std::move(lower);
  }
}

void ShiftedBand::check(Index cols) const {
  ensure(result_.ok(), "shifted band: used though not positive definite");
  ensure(cols == size_, "shifted band: rows have ", cols, " columns, the matrix has ", size_);
}

// y = z D_k^T - before E_k^T
void ShiftedBand::step(Index k, MatrixView<const double> z, MatrixView<const double> before,
                       MatrixView<double> y) const {
  const Block& block = blocks_[std::size_t(k)];
  gemm(Trans::no, Trans::no, 1.0, z, block.inverse_t, 0.0, y);
  if (k > 0) gemm(Trans::no, Trans::no, -1.0, before, block.carry_t, 1.0, y);
}

void ShiftedBand::forward(MatrixView<double> rows, MatrixView<double> scratch) const {
  MatrixView<double> before;
  for (Index k = 0; k < Index(blocks_.size()); ++k) {
    const Tile j = tile_at(size_, b, k);
    const auto z = rows.block(0, j.begin, rows.rows, j.size);
    const auto y = scratch.block(0, 0, rows.rows, j.size);
    step(k, z, before, y);
    copy_rows(y, z);
    before = z;
  }
}

void ShiftedBand::backward(MatrixView<double> rows, MatrixView<double> scratch) const {
  MatrixView<double> after;
  for (Index k = Index(blocks_.size()) - 1; k >= 0; --k) {
    const Tile j = tile_at(size_, b, k);
    const auto z = rows.block(0, j.begin, rows.rows, j.size);
    const auto y = scratch.block(0, 0, rows.rows, j.size);
    if (after.data) gemm(Trans::no, Trans::no, -1.0, after, blocks_[std::size_t(k) + 1].coupling, 1.0, z);
    gemm(Trans::no, Trans::yes, 1.0, z, blocks_[std::size_t(k)].inverse_t, 0.0, y);
    copy_rows(y, z);
    after = z;
  }
}

void ShiftedBand::half_solve(MatrixView<double> rows, int threads) const {
  check(rows.cols);
  parallel_for(threads_for(row_flops(rows), threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    Matrix<double> scratch(i.size, b);
    forward(rows.block(i.begin, 0, i.size, rows.cols), scratch);
  });
}

void ShiftedBand::solve(MatrixView<double> rows, int threads) const {
  check(rows.cols);
  parallel_for(threads_for(row_flops(rows), threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    Matrix<double> scratch(i.size, b);
    forward(rows.block(i.begin, 0, i.size, rows.cols), scratch);
    backward(rows.block(i.begin, 0, i.size, rows.cols), scratch);
  });
}

// As half_solve, but a block of y lives only until the next one is known.
void ShiftedBand::add_norms(MatrixView<const double> rows, double* out) const {
  Matrix<double> even(rows.rows, b), odd(rows.rows, b);
  MatrixView<double> before = odd, now = even;
  for (Index k = 0; k < Index(blocks_.size()); ++k) {
    const Tile j = tile_at(size_, b, k);
    const auto y = now.block(0, 0, rows.rows, j.size);
    step(k, rows.block(0, j.begin, rows.rows, j.size), before, y);
    add_squares(y, out);
    std::swap(before, now);
  }
}

void ShiftedBand::quadratic_forms(MatrixView<const double> rows, double* out, int threads) const {
  check(rows.cols);
  std::fill_n(out, rows.rows, 0.0);
  parallel_for(threads_for(row_flops(rows), threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    add_norms(rows.block(i.begin, 0, i.size, rows.cols), out + i.begin);
  });
}

}  // namespace headlens
