#include "cpu/layer/linear_model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kTileRows = 64;

// factor * a, in another precision.
template <class To, class From>
Matrix<To> scaled(double factor, const Matrix<From>& a) {
  Matrix<To> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i)
    out.data()[i] = static_cast<To>(factor * double(a.data()[i]));
  return out;
}

template <class T>
double inner(const Matrix<T>& a, const Matrix<T>& b) {
  return inner_product(a.view(), b.view());
}

// Conjugate gradients from zero, on the gradient divided by its norm: float has no room for small gradients.
// The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last residual); both halves are doubled
// here, since cost is |r|^2 and not half of it.
template <class T>
backend::Step solve_step(const Tangent<T>& tangent, const Matrix<double>& gradient, double mu,
                         double tolerance, int cap, const Preconditioner& preconditioner,
                         const std::function<bool()>& expired) {
  const VariableProjection& problem = tangent.problem();
  const Index d = gradient.rows(), columns = gradient.cols();
  const double size = std::sqrt(squared_norm(gradient));
  backend::Step step{Matrix<double>::zeros(d, columns), 0, 0};
  if (!(size > 0)) return step;
  Matrix<T> direction = Matrix<T>::zeros(d, columns), image(d, columns), z(problem.rows(), problem.outputs());
  Matrix<T> residual = scaled<T>(1 / size, gradient);
  Matrix<T> preconditioned = preconditioner.apply(residual), search = copy_of(preconditioned);
  double rho = inner(residual, preconditioned);
  const double target = tolerance * std::sqrt(std::max(rho, 0.0));
  while (step.inner < cap && rho > 0 && !expired()) {
    tangent.normal_product(search, z, image);
    add(static_cast<T>(mu), search, image);
    const double bend = inner(search, image);
    if (!(bend > 0)) break;
    const double alpha = rho / bend;
    add(static_cast<T>(alpha), search, direction);
    add(static_cast<T>(-alpha), image, residual);
    ++step.inner;
    preconditioned = preconditioner.apply(residual);
    const double next = inner(residual, preconditioned);
    if (!(std::sqrt(std::max(next, 0.0)) > target)) break;
    for (Index i = 0; i < d * columns; ++i)
      search.data()[i] = preconditioned.data()[i] + static_cast<T>(next / rho) * search.data()[i];
    rho = next;
  }
  step.predicted = size * size *
                   (inner(direction, scaled<T>(1 / size, gradient)) + inner(direction, residual) +
                    mu * inner(direction, direction));
  step.direction = scaled<double>(size, direction);
  return step;
}

}  // namespace

void Preconditioner::refresh(const VariableProjection& problem, const Point& point) {
  curvature_ = problem.curvature(point, 32 * problem.heads() + 64);
  threads_ = problem.threads();
}

void Preconditioner::shift(double mu) {
  factor_ = copy_of(curvature_);
  for (Index j = 0; j < factor_.rows(); ++j) factor_(j, j) += mu;
  usable_ = cholesky(factor_, threads_).ok();
  if (usable_) factor_single_ = scaled<float>(1, factor_);
}

template <class T>
Matrix<T> Preconditioner::apply(const Matrix<T>& a) const {
  Matrix<T> out = copy_of(a);
  if (!usable_) return out;
  MatrixView<const T> factor;
  if constexpr (std::is_same_v<T, float>)
    factor = factor_single_.view();
  else
    factor = factor_.view();
  // x (L L^T)^-1 = (x L^-T) L^-1
  const double flops = 2.0 * static_cast<double>(a.rows() * a.cols()) * static_cast<double>(a.cols());
  parallel_for(threads_for(flops, threads_), tile_count(a.rows(), kTileRows), [&](Index item, int) {
    const Tile tile = tile_at(a.rows(), kTileRows, item);
    const MatrixView<T> rows = out.view().block(tile.begin, 0, tile.size, a.cols());
    trsm(Side::right, Trans::yes, factor, rows);
    trsm(Side::right, Trans::no, factor, rows);
  });
  return out;
}

void ProjectedModel::move_to(const backend::LayerPoint& point) {
  point_ = &as_point(point);
  single_.moved = double_.moved = false;
}

void ProjectedModel::refresh_preconditioner(const backend::LayerPoint& point) {
  preconditioner_.refresh(problem_, as_point(point));
}

template <class T>
const Tangent<T>& ProjectedModel::at_point(Lazy<T>& lazy) {
  if (!lazy.tangent) lazy.tangent.emplace(problem_);
  if (!lazy.moved) lazy.tangent->move_to(*point_);
  lazy.moved = true;
  return *lazy.tangent;
}

backend::Step ProjectedModel::solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                                    Precision precision, const std::function<bool()>& expired) {
  if (precision == Precision::f64)
    return solve_step(at_point(double_), gradient, mu, tolerance, cap, preconditioner_, expired);
  return solve_step(at_point(single_), gradient, mu, tolerance, cap, preconditioner_, expired);
}

void ProjectedModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  if (image_.rows() == 0) image_ = Matrix<double>(problem_.rows(), problem_.outputs());
  in_double().normal_product(a, image_.view(), out);
}

Matrix<double> ProjectedModel::best_w(MatrixView<const double> z) {
  return best_readout(*point_, z, problem_.threads());
}

}  // namespace headlens::cpu
