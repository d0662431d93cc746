#include "cpu/layer/variable_projection.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/layer/linear_model.hpp"
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
constexpr Index kStack = 32;  // rows whose curvature is added at once

}  // namespace

VariableProjection::VariableProjection(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                                       Index heads, int threads, std::vector<double> row_weights)
    : x_(x),
      y_(y),
      map_(x, tokens, heads, threads),
      threads_(threads),
      y_squares_(squared_norm(y)),
      row_weights_(std::move(row_weights)) {}

std::unique_ptr<backend::LayerPoint> VariableProjection::make_point() const {
  const Index features = heads() * dim();
  auto out = std::make_unique<Point>();
  Point& point = *out;
  point.p = Matrix<double>(rows() * heads(), map_.tokens());
  point.phi = Matrix<double>(rows(), features);
  point.w = Matrix<double>(features, outputs());
  point.values = Matrix<double>(rows() / tokens() * outputs(), heads() * tokens());
  point.residual = Matrix<double>(rows(), outputs());
  point.gram = Matrix<double>(features, features);
  point.product = Matrix<double>(features, outputs());
  point.factor = Matrix<double>(features, features);
  return out;
}

void VariableProjection::evaluate(Matrix<double> theta, double ridge, backend::LayerPoint& at) const {
  Point& point = as_point(at);
  point.parameters = std::move(theta);
  map_.evaluate(point.parameters, point.p, point.phi);
  weigh_rows(point.phi.view());
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  std::fill_n(point.gram.data(), phi.cols * phi.cols, 0.0);
  add_inner(phi, point.gram, threads_);
  multiply(Trans::yes, Trans::no, 1.0, phi, y_, 0.0, point.product.view(), threads_);
  solve_for_w(ridge, point);
}

void VariableProjection::solve_for_w(double ridge, backend::LayerPoint& at) const {
  Point& point = as_point(at);
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

Matrix<double> VariableProjection::residual(const backend::LayerPoint& point) const {
  return copy_of(as_point(point).residual);
}

void VariableProjection::linearise(backend::LayerPoint& at) const {
  Point& point = as_point(at);
  map_.values(point.w, point.values);
}

void VariableProjection::gradient(const backend::LayerPoint& at, MatrixView<double> dtheta) const {
  const Point& point = as_point(at);
  map_.adjoint(point.p, point.values, point.residual, dtheta);
}

std::unique_ptr<backend::LinearModel> VariableProjection::make_linear_model() const {
  return std::make_unique<ProjectedModel>(*this);
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
      map_.slopes(point.p, point.phi, point.values, sample[static_cast<std::size_t>(tile.begin + j)],
                  stacked.view().block(0, j * e, features, e));
    });
    add_outer(std::as_const(stacked).view().block(0, 0, features, tile.size * e), b, threads_);
  }
  const double scale = static_cast<double>(rows()) / static_cast<double>(used);
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j <= i; ++j) b(i, j) *= scale;
  return b;
}

}  // namespace headlens::cpu
