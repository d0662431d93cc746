#include "cpu/layer/variable_projection.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/design/sum_lower.hpp"
#include "cpu/layer/linear_model.hpp"
#include "cpu/layer/sum_over.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kStack = 32;  // rows whose curvature is added at once

}  // namespace

VariableProjection::VariableProjection(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                                       Index heads, int threads, std::vector<double> row_weights,
                                       comm::Communicator& ranks)
    : ReadoutProblem({.x = x, .y = y, .tokens = tokens}, threads, ranks),
      map_(x, tokens, heads, threads),
      row_weights_(std::move(row_weights)) {}

std::unique_ptr<backend::LayerPoint> VariableProjection::make_point() const {
  auto point = std::make_unique<Point>(rows(), heads() * dim(), outputs(), ranks());
  point->p = Matrix<double>(rows() * heads(), tokens());
  point->values = Matrix<double>(rows() / tokens() * outputs(), heads() * tokens());
  return point;
}

void VariableProjection::make_features(ReadoutPoint& at) const {
  Point& point = as_point(at);
  map_.evaluate(point.parameters, point.p, point.phi);
  weigh_rows(point.phi.view());
}

void VariableProjection::linearise(backend::LayerPoint& at) const {
  Point& point = as_point(at);
  map_.values(point.w, point.values);
}

void VariableProjection::gradient(const backend::LayerPoint& at, MatrixView<double> dtheta) const {
  const Point& point = as_point(at);
  map_.adjoint(point.p, point.values, point.residual, dtheta);
  sum_over(ranks(), dtheta);
}

std::unique_ptr<backend::LinearModel> VariableProjection::make_linear_model() const {
  return std::make_unique<ProjectedModel>(*this);
}

Matrix<double> VariableProjection::curvature(const Point& point, Index wanted) const {
  const Index features = heads() * dim(), e = outputs();
  std::vector<Index> sample;
  const Index step = std::max<Index>(1, rows() * ranks().size() / std::max<Index>(1, wanted));
  for (Index row = 0; row < rows(); row += step)
    if (row_weights_.empty() || row_weights_[static_cast<std::size_t>(row)] != 0) sample.push_back(row);
  const auto used = static_cast<Index>(sample.size());
  Matrix<double> b = Matrix<double>::zeros(features, features), stacked(features, kStack * e);
  for (Index item = 0; item < tile_count(used, kStack); ++item) {
    const Tile tile = tile_at(used, kStack, item);
    const double flops = 4.0 * static_cast<double>(tile.size * tokens() * features * e);
    parallel_for(threads_for(flops, threads()), tile.size, [&](Index j, int) {
      map_.slopes(point.p, point.phi, point.values, sample[static_cast<std::size_t>(tile.begin + j)],
                  stacked.view().block(0, j * e, features, e));
    });
    add_outer(std::as_const(stacked).view().block(0, 0, features, tile.size * e), b, threads());
  }
  sum_lower(ranks(), b.view());
  const double scale = ranks().sum(static_cast<double>(rows())) / ranks().sum(static_cast<double>(used));
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j <= i; ++j) b(i, j) *= scale;
  return b;
}

}  // namespace headlens::cpu
