#include "linalg/cholesky.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/lapack.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

// Measured at n = 3000: OpenBLAS's trsm runs at a third of gemm's speed, so panels are narrower than tiles.
constexpr Index kPanel = 128;
constexpr Index kRowTile = 256;
constexpr Index kSolveColumns = 256;

// below = below L^-T
template <class T>
void solve_panel(MatrixView<const T> factor, MatrixView<T> below, int threads) {
  const double flops = double(below.rows) * double(below.cols) * double(below.cols);
  parallel_for(threads_for(flops, threads), tile_count(below.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(below.rows, kRowTile, item);
    trsm(Side::right, Trans::yes, factor, below.block(i.begin, 0, i.size, below.cols));
  });
}

// trailing -= panel panel^T, lower triangle
template <class T>
void update_trailing(MatrixView<const T> panel, MatrixView<T> trailing, int threads) {
  const Index n = trailing.rows, tile = square_tile(n);
  const double flops = double(n) * double(n) * double(panel.cols);
  parallel_for(threads_for(flops, threads), lower_tile_count(tile_count(n, tile)), [&](Index item, int) {
    const TilePair pair = lower_tile(item);
    const Tile i = tile_at(n, tile, pair.row), j = tile_at(n, tile, pair.col);
    const auto left = panel.block(i.begin, 0, i.size, panel.cols);
    const auto right = panel.block(j.begin, 0, j.size, panel.cols);
    const auto out = trailing.block(i.begin, j.begin, i.size, j.size);
    if (pair.row == pair.col)
      syrk(Trans::no, T{-1}, left, T{1}, out);
    else
      gemm(Trans::no, Trans::yes, T{-1}, left, right, T{1}, out);
  });
}

template <class T>
void solve_forward(MatrixView<const T> factor, MatrixView<T> b) {
  for (Index k = 0; k < tile_count(b.rows, kPanel); ++k) {
    const Tile i = tile_at(b.rows, kPanel, k);
    const auto out = b.block(i.begin, 0, i.size, b.cols);
    gemm(Trans::no, Trans::no, T{-1}, factor.block(i.begin, 0, i.size, i.begin),
         b.block(0, 0, i.begin, b.cols), T{1}, out);
    trsm(Side::left, Trans::no, factor.block(i.begin, i.begin, i.size, i.size), out);
  }
}

template <class T>
void solve_backward(MatrixView<const T> factor, MatrixView<T> b) {
  for (Index k = tile_count(b.rows, kPanel) - 1; k >= 0; --k) {
    const Tile i = tile_at(b.rows, kPanel, k);
    const Index end = i.begin + i.size;
    const auto out = b.block(i.begin, 0, i.size, b.cols);
    gemm(Trans::yes, Trans::no, T{-1}, factor.block(end, i.begin, b.rows - end, i.size),
         b.block(end, 0, b.rows - end, b.cols), T{1}, out);
    trsm(Side::left, Trans::yes, factor.block(i.begin, i.begin, i.size, i.size), out);
  }
}

void potrf(const int* n, double* a, const int* stride, int* info) { dpotrf_("U", n, a, stride, info, 1); }
void potrf(const int* n, float* a, const int* stride, int* info) { spotrf_("U", n, a, stride, info, 1); }

template <class T>
CholeskyResult cholesky_tile_of(MatrixView<T> a) {
  ensure(a.rows == a.cols, "cholesky: (", a.rows, " x ", a.cols, ") is not square");
  if (a.rows == 0) return {};
  use_one_blas_thread();
  const int n = blas_int(a.rows), stride = blas_int(a.stride);
  int info = 0;
  potrf(&n, a.data, &stride, &info);
  ensure(info >= 0, "potrf: argument ", -info);
  // OpenBLAS lets NaN and infinity through; either one reaches the diagonal of its row.
  const Index done = info > 0 ? info - 1 : a.rows;
  for (Index i = 0; i < done; ++i)
    if (!std::isfinite(a(i, i))) return {CholeskyStatus::not_positive_definite, i};
  if (info > 0) return {CholeskyStatus::not_positive_definite, info - 1};
  return {};
}

template <class T>
CholeskyResult factorise(MatrixView<T> a, int threads) {
  const Index n = a.rows;
  ensure(a.cols == n, "cholesky: (", n, " x ", a.cols, ") is not square");
  for (Index k = 0; k < tile_count(n, kPanel); ++k) {
    const Tile panel = tile_at(n, kPanel, k);
    const Index end = panel.begin + panel.size;
    const auto top = a.block(panel.begin, panel.begin, panel.size, panel.size);
    const CholeskyResult result = cholesky_tile_of(top);
    if (!result.ok()) return {result.status, panel.begin + result.pivot};
    const auto below = a.block(end, panel.begin, n - end, panel.size);
    solve_panel<T>(top, below, threads);
    update_trailing<T>(below, a.block(end, end, n - end, n - end), threads);
  }
  return {};
}

template <class T>
void solve(MatrixView<const T> factor, MatrixView<T> b, int threads) {
  ensure(factor.rows == factor.cols && factor.rows == b.rows, "cholesky_solve: factor (", factor.rows, " x ",
         factor.cols, "), right-hand sides (", b.rows, " x ", b.cols, ")");
  const double flops = 2.0 * double(b.rows) * double(b.rows) * double(b.cols);
  parallel_for(threads_for(flops, threads), tile_count(b.cols, kSolveColumns), [&](Index item, int) {
    const Tile j = tile_at(b.cols, kSolveColumns, item);
    const auto columns = b.block(0, j.begin, b.rows, j.size);
    solve_forward(factor, columns);
    solve_backward(factor, columns);
  });
}

}  // namespace

CholeskyResult cholesky_tile(MatrixView<double> a) { return cholesky_tile_of(a); }
CholeskyResult cholesky_tile(MatrixView<float> a) { return cholesky_tile_of(a); }
CholeskyResult cholesky(MatrixView<double> a, int threads) { return factorise(a, threads); }
CholeskyResult cholesky(MatrixView<float> a, int threads) { return factorise(a, threads); }
void cholesky_solve(MatrixView<const double> factor, MatrixView<double> b, int threads) {
  solve(factor, b, threads);
}
void cholesky_solve(MatrixView<const float> factor, MatrixView<float> b, int threads) {
  solve(factor, b, threads);
}

}  // namespace headlens
