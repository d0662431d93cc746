#include "refit/tied_problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"
#include "refit/tied_model.hpp"

namespace headlens::refitting {
namespace {

using backend::LayerPoint;

constexpr double kJitter = 1e-14;  // of the mean diagonal: the factorisation exists
constexpr double kReadoutRidge = 1e-10;
constexpr Index kReadoutRows = 4096;

TiedPoint& as_tied(LayerPoint& point) { return static_cast<TiedPoint&>(point); }
const TiedPoint& as_tied(const LayerPoint& point) { return static_cast<const TiedPoint&>(point); }

double mean_diagonal(const Matrix<double>& gram) {
  double sum = 0;
  for (Index j = 0; j < gram.rows(); ++j) sum += gram(j, j);
  return sum / static_cast<double>(gram.rows());
}

// factor = L with L L^T = gram + shift; false where there is none.
bool factorise(const Matrix<double>& gram, double shift, Matrix<double>& factor, int threads) {
  copy_rows(gram.view(), factor.view());
  for (Index j = 0; j < factor.rows(); ++j) factor(j, j) += shift;
  return std::isfinite(shift) && shift > 0 && cholesky(factor, threads).ok();
}

}  // namespace

TiedExamples TiedExamples::part(Index first, Index count) const {
  TiedExamples out{x.block(first * tokens, 0, count * tokens, x.cols),
                   y.block(first * tokens, 0, count * tokens, y.cols), tokens};
  if (!lengths.empty()) out.lengths.assign(lengths.begin() + first, lengths.begin() + first + count);
  return out;
}

double relative_error(const TiedLayer& layer, const TiedExamples& examples, int threads) {
  const Matrix<double> f = apply(layer, examples.x, examples.tokens, examples.lengths, threads);
  double left = 0, all = 0;
  for (Index i = 0; i < f.rows(); ++i)
    for (Index j = 0; j < f.cols(); ++j) {
      const double difference = f(i, j) - examples.y(i, j);
      left += difference * difference;
      all += examples.y(i, j) * examples.y(i, j);
    }
  return std::sqrt(left / std::max(all, 1e-300));
}

bool solve_readout(TiedLayer& layer, const TiedExamples& examples, int threads) {
  const Index features = layer.shape.features(), outputs = examples.y.cols,
              step = std::max<Index>(1, kReadoutRows / examples.tokens);
  Matrix<double> gram = Matrix<double>::zeros(features, features), factor(features, features),
                 w = Matrix<double>::zeros(features, outputs);
  for (Index first = 0; first < examples.count(); first += step) {
    const TiedExamples here = examples.part(first, std::min(step, examples.count() - first));
    const TiedMap<double> map(here.x, here.tokens, layer.shape, here.lengths, threads);
    Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    map.evaluate(layer.parameters, z, p, phi);
    add_inner(std::as_const(phi).view(), gram, threads);
    multiply(Trans::yes, Trans::no, 1.0, std::as_const(phi).view(), here.y, 1.0, w.view(), threads);
  }
  if (!factorise(gram, kReadoutRidge * mean_diagonal(gram), factor, threads)) return false;
  cholesky_solve(factor, w, threads);
  layer.readout = std::move(w);
  return true;
}

TiedProblem::TiedProblem(const TiedExamples& examples, const TiedShape& shape, int threads)
    : examples_(examples),
      shape_(shape),
      map_(examples.x, examples.tokens, shape, examples.lengths, threads),
      threads_(threads),
      y_squares_(squared_norm(examples.y)) {}

std::unique_ptr<LayerPoint> TiedProblem::make_point() const {
  auto point = std::make_unique<TiedPoint>();
  point->z = map_.make_activations();
  point->p = map_.make_attention();
  point->phi = map_.make_phi();
  point->residual = Matrix<double>(rows(), outputs());
  point->gram = Matrix<double>(shape_.features(), shape_.features());
  point->factor = Matrix<double>(shape_.features(), shape_.features());
  point->product = Matrix<double>(shape_.features(), outputs());
  point->w = Matrix<double>(shape_.features(), outputs());
  return point;
}

void TiedProblem::evaluate(Matrix<double> parameters, double ridge, LayerPoint& at) const {
  TiedPoint& point = as_tied(at);
  point.parameters = std::move(parameters);
  map_.evaluate(point.parameters, point.z, point.p, point.phi);
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  std::fill_n(point.gram.data(), phi.cols * phi.cols, 0.0);
  add_inner(phi, point.gram, threads_);
  multiply(Trans::yes, Trans::no, 1.0, phi, examples_.y, 0.0, point.product.view(), threads_);
  solve_for_w(ridge, point);
}

void TiedProblem::solve_for_w(double ridge, LayerPoint& at) const {
  TiedPoint& point = as_tied(at);
  const double mean = mean_diagonal(point.gram), lambda = ridge * mean;
  point.finite = factorise(point.gram, lambda + kJitter * mean, point.factor, threads_);
  if (!point.finite) return;
  copy_rows(std::as_const(point.product).view(), point.w.view());
  cholesky_solve(point.factor, point.w, threads_);
  copy_rows(examples_.y, point.residual.view());
  multiply(Trans::no, Trans::no, -1.0, std::as_const(point.phi).view(), std::as_const(point.w).view(), 1.0,
           point.residual.view(), threads_);
  point.squares = squared_norm(point.residual);
  point.cost = point.squares + lambda * squared_norm(point.w);
  point.finite = std::isfinite(point.cost);
}

Matrix<double> TiedProblem::residual(const LayerPoint& point) const {
  return headlens::copy_of(as_tied(point).residual);
}

void TiedProblem::gradient(const LayerPoint& at, MatrixView<double> dp) const {
  const TiedPoint& point = as_tied(at);
  Matrix<double> g(rows(), shape_.features());
  multiply(Trans::no, Trans::yes, 1.0, point.residual.view(), point.w.view(), 0.0, g.view(), threads_);
  map_.adjoint(point.z, point.p, std::as_const(g).view(), dp);
}

std::unique_ptr<backend::LinearModel> TiedProblem::make_linear_model() const {
  return std::make_unique<TiedModel>(*this);
}

}  // namespace headlens::refitting
