#include "cpu/layer/readout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr double kJitter = 1e-14;
constexpr double kRefineBelow = 1e-6;
constexpr Index kTileRows = 256;

void update_residual(MatrixView<const double> y, int threads, ReadoutPoint& point) {
  copy_rows(y, point.residual.view());
  multiply(Trans::no, Trans::no, -1.0, point.phi.view(), point.w.view(), 1.0, point.residual.view(), threads);
}

}  // namespace

ReadoutPoint::ReadoutPoint(Index rows, Index features, Index outputs)
    : phi(rows, features),
      residual(rows, outputs),
      gram(features, features),
      product(features, outputs),
      factor(features, features) {
  w = Matrix<double>(features, outputs);
}

void gather_readout(MatrixView<const double> y, int threads, ReadoutPoint& point) {
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  std::fill_n(point.gram.data(), phi.cols * phi.cols, 0.0);
  add_inner(phi, point.gram, threads);
  multiply(Trans::yes, Trans::no, 1.0, phi, y, 0.0, point.product.view(), threads);
}

void solve_readout(MatrixView<const double> y, double y_squares, double ridge, int threads,
                   ReadoutPoint& point) {
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  const Index features = phi.cols, outputs = y.cols;
  std::copy_n(point.gram.data(), features * features, point.factor.data());
  double trace = 0;
  for (Index j = 0; j < features; ++j) trace += point.gram(j, j) / static_cast<double>(features);
  const double lambda = ridge * trace;
  for (Index j = 0; j < features; ++j) point.factor(j, j) += lambda + kJitter * trace;
  point.finite = std::isfinite(trace) && trace > 0 && cholesky(point.factor, threads).ok();
  if (!point.finite) return;
  copy_rows(std::as_const(point.product).view(), point.w.view());
  cholesky_solve(point.factor, point.w, threads);
  update_residual(y, threads, point);
  // One step of refinement against the true residual, once digits are at stake: the normal equations square
  // the condition number.
  if (squared_norm(point.residual) < kRefineBelow * y_squares) {
    Matrix<double> gradient(features, outputs);
    multiply(Trans::yes, Trans::no, 1.0, phi, std::as_const(point.residual).view(), 0.0, gradient.view(),
             threads);
    for (Index i = 0; i < features * outputs; ++i) gradient.data()[i] -= lambda * point.w.data()[i];
    cholesky_solve(point.factor, gradient, threads);
    for (Index i = 0; i < features * outputs; ++i) point.w.data()[i] += gradient.data()[i];
    update_residual(y, threads, point);
  }
  point.squares = squared_norm(point.residual);
  point.cost = point.squares + lambda * squared_norm(point.w);
  point.finite = std::isfinite(point.cost);
}

template <class T>
void orthonormal_features(const ReadoutPoint& point, int threads, MatrixView<T> q) {
  // The inverse of the factor makes Q a plain product, several times faster than solving row by row.
  const Index features = q.cols;
  Matrix<double> inverse = Matrix<double>::zeros(features, features);
  for (Index j = 0; j < features; ++j) inverse(j, j) = 1;
  trsm(Side::left, Trans::no, point.factor.view(), inverse.view());
  const double flops = 2.0 * static_cast<double>(q.rows) * static_cast<double>(features * features);
  parallel_for(threads_for(flops, threads), tile_count(q.rows, kTileRows), [&](Index item, int) {
    const Tile tile = tile_at(q.rows, kTileRows, item);
    Matrix<double> rows(tile.size, features);
    gemm(Trans::no, Trans::yes, 1.0, point.phi.view().block(tile.begin, 0, tile.size, features),
         std::as_const(inverse).view(), 0.0, rows.view());
    for (Index i = 0; i < tile.size; ++i)
      for (Index j = 0; j < features; ++j) q(tile.begin + i, j) = static_cast<T>(rows(i, j));
  });
}

template <class T>
void project_out(MatrixView<const T> q, int threads, MatrixView<T> z) {
  Matrix<T> c(q.cols, z.cols);
  multiply(Trans::yes, Trans::no, T(1), q, MatrixView<const T>(z), T(0), c.view(), threads);
  multiply(Trans::no, Trans::no, T(-1), q, std::as_const(c).view(), T(1), z, threads);
}

Matrix<double> best_readout(const ReadoutPoint& point, MatrixView<const double> z, int threads) {
  Matrix<double> w(point.phi.cols(), z.cols);
  multiply(Trans::yes, Trans::no, 1.0, point.phi.view(), z, 0.0, w.view(), threads);
  cholesky_solve(point.factor, w, threads);
  return w;
}

template void orthonormal_features<float>(const ReadoutPoint&, int, MatrixView<float>);
template void orthonormal_features<double>(const ReadoutPoint&, int, MatrixView<double>);
template void project_out<float>(MatrixView<const float>, int, MatrixView<float>);
template void project_out<double>(MatrixView<const double>, int, MatrixView<double>);

}  // namespace headlens::cpu
