#include "recover/variable_projection.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr double kJitter = 1e-14;
constexpr double kRefineBelow = 1e-6;
constexpr Index kStack = 32;  // rows whose curvature is added at once

}  // namespace

double inner_product(MatrixView<const double> a, MatrixView<const double> b) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i) {
    double row = 0;  // row by row: the error grows with the columns, not with the size
    for (Index j = 0; j < a.cols; ++j) row += a(i, j) * b(i, j);
    sum += row;
  }
  return sum;
}

double squared_norm(MatrixView<const double> a) { return inner_product(a, a); }

VariableProjection::VariableProjection(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                                       Index heads, int threads, std::vector<double> row_weights)
    : x_(x),
      y_(y),
      map_(x, tokens, heads, threads),
      threads_(threads),
      y_squares_(squared_norm(y)),
      row_weights_(std::move(row_weights)) {}

VariableProjection::Point VariableProjection::make_point() const {
  const Index features = heads() * dim();
  Point point;
  point.p = Matrix<double>(rows() * heads(), map_.tokens());
  point.phi = Matrix<double>(rows(), features);
  point.w = Matrix<double>(features, outputs());
  point.values = Matrix<double>(rows() / tokens() * outputs(), heads() * tokens());
  point.residual = Matrix<double>(rows(), outputs());
  point.gram = Matrix<double>(features, features);
  point.product = Matrix<double>(features, outputs());
  point.factor = Matrix<double>(features, features);
  return point;
}

void VariableProjection::evaluate(Matrix<double> theta, double ridge, Point& point) const {
  point.theta = std::move(theta);
  map_.evaluate(point.theta, point.p, point.phi);
  weigh_rows(point.phi.view());
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  std::fill_n(point.gram.data(), phi.cols * phi.cols, 0.0);
  add_inner(phi, point.gram, threads_);
  multiply(Trans::yes, Trans::no, 1.0, phi, y_, 0.0, point.product.view(), threads_);
  solve_for_w(ridge, point);
}

void VariableProjection::solve_for_w(double ridge, Point& point) const {
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  const Index features = phi.cols;
  std::copy_n(point.gram.data(), features * features, point.factor.data());
  double trace = 0;
  for (Index j = 0; j < features; ++j) trace += point.gram(j, j) / static_cast<double>(features);
  const double lambda = ridge * trace;
  for (Index j = 0; j < features; ++j) point.factor(j, j) += lambda + kJitter * trace;
  point.finite = std::isfinite(trace) && trace > 0 && cholesky(point.factor, threads_).ok();
  if (!point.finite) return;
  copy_rows(std::as_const(point.product).view(), point.w.view());
  cholesky_solve(point.factor, point.w, threads_);
  const auto update_residual = [&] {
    for (Index i = 0; i < rows(); ++i) std::copy_n(y_.row(i), outputs(), point.residual.view().row(i));
    multiply(Trans::no, Trans::no, -1.0, phi, point.w.view(), 1.0, point.residual.view(), threads_);
  };
  update_residual();
  // One step of refinement against the true residual, once digits are at stake: the normal equations square
  // the condition number.
  if (squared_norm(point.residual) < kRefineBelow * y_squares_) {
    Matrix<double> gradient(features, outputs());
    multiply(Trans::yes, Trans::no, 1.0, phi, std::as_const(point.residual).view(), 0.0, gradient.view(),
             threads_);
    for (Index i = 0; i < features * outputs(); ++i) gradient.data()[i] -= lambda * point.w.data()[i];
    cholesky_solve(point.factor, gradient, threads_);
    for (Index i = 0; i < features * outputs(); ++i) point.w.data()[i] += gradient.data()[i];
    update_residual();
  }
  point.squares = squared_norm(point.residual);
  point.cost = point.squares + lambda * squared_norm(point.w);
  point.finite = std::isfinite(point.cost);
}

void VariableProjection::linearise(Point& point) const { map_.values(point.w, point.values); }

void VariableProjection::gradient(const Point& point, MatrixView<double> dtheta) const {
  map_.adjoint(point.p, point.values, point.residual, dtheta);
}

// K (m d, e), the stacked C^i W_i of one row: C W = sum_b p_b (x_b - mean) (x_b W - mean W)^T, where only the
// left factor needs centring.
void VariableProjection::slopes(const Point& point, Index row, MatrixView<double> out) const {
  const Index k = tokens(), m = heads(), d = dim(), e = outputs(), example = row / k;
  const MatrixView<const double> x = x_.block(example * k, 0, k, d);
  Matrix<double> centred(k, d), weighted(e, k);
  for (Index i = 0; i < m; ++i) {
    const double* p = point.p.data() + (row * m + i) * k;
    const double* mean = point.phi.data() + row * m * d + i * d;
    const MatrixView<const double> values = point.values.view().block(example * e, i * k, e, k);
    for (Index t = 0; t < k; ++t)
      for (Index q = 0; q < d; ++q) centred(t, q) = x(t, q) - mean[q];
    for (Index c = 0; c < e; ++c)
      for (Index t = 0; t < k; ++t) weighted(c, t) = p[t] * values(c, t);
    gemm(Trans::yes, Trans::yes, 1.0, std::as_const(centred).view(), std::as_const(weighted).view(), 0.0,
         out.block(i * d, 0, d, e));
  }
}

Matrix<double> VariableProjection::curvature(const Point& point, Index wanted) const {
  const Index features = heads() * dim(), e = outputs();
  std::vector<Index> sample;
  const Index step = std::max<Index>(1, rows() / std::max<Index>(1, wanted));
  for (Index row = 0; row < rows(); row += step)
    if (row_weights_.empty() || row_weights_[static_cast<std::size_t>(row)] != 0) sample.push_back(row);
  const auto used = static_cast<Index>(sample.size());
  Matrix<double> b = Matrix<double>::zeros(features, features), stacked(features, kStack * e);
  for (Index item = 0; item < tile_count(used, kStack); ++item) {
    const Tile tile = tile_at(used, kStack, item);
    const double flops = 4.0 * static_cast<double>(tile.size * tokens() * features * e);
    parallel_for(threads_for(flops, threads_), tile.size, [&](Index j, int) {
      slopes(point, sample[static_cast<std::size_t>(tile.begin + j)],
             stacked.view().block(0, j * e, features, e));
    });
    add_outer(std::as_const(stacked).view().block(0, 0, features, tile.size * e), b, threads_);
  }
  const double scale = static_cast<double>(rows()) / static_cast<double>(used);
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j <= i; ++j) b(i, j) *= scale;
  return b;
}

}  // namespace headlens
