#include "recover/normal_equations.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kTileRows = 64;

template <class T>
void add_of(T factor, const Matrix<T>& from, Matrix<T>& to) {
  for (Index i = 0; i < from.rows() * from.cols(); ++i) to.data()[i] += factor * from.data()[i];
}

template <class T>
Matrix<T> duplicate(const Matrix<T>& a) {
  Matrix<T> out(a.rows(), a.cols());
  std::copy_n(a.data(), a.rows() * a.cols(), out.data());
  return out;
}

// factor * a, in another precision.
template <class To, class From>
Matrix<To> scaled(double factor, const Matrix<From>& a) {
  Matrix<To> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i)
    out.data()[i] = static_cast<To>(factor * double(a.data()[i]));
  return out;
}

// Summed in double, whatever the precision.
template <class T>
double inner(const Matrix<T>& a, const Matrix<T>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows(); ++i) {
    double row = 0;
    for (Index j = 0; j < a.cols(); ++j) row += double(a(i, j)) * double(b(i, j));
    sum += row;
  }
  return sum;
}

}  // namespace

void add(double factor, const Matrix<double>& from, Matrix<double>& to) { add_of(factor, from, to); }

Matrix<double> copy_of(const Matrix<double>& a) { return duplicate(a); }

void Preconditioner::refresh(const VariableProjection& problem, const VariableProjection::Point& point) {
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
  Matrix<T> out = duplicate(a);
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

// Conjugate gradients from zero, on the gradient divided by its norm: float has no room for small gradients.
// The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last residual); both halves are doubled
// here, since cost is |r|^2 and not half of it.
template <class T>
Step solve_step(const Tangent<T>& tangent, const Matrix<double>& gradient, double mu, double tolerance,
                int cap, const Preconditioner& preconditioner, const std::function<bool()>& expired) {
  const VariableProjection& problem = tangent.problem();
  const Index d = gradient.rows(), columns = gradient.cols();
  const double size = std::sqrt(squared_norm(gradient));
  Step step{Matrix<double>::zeros(d, columns), 0, 0};
  if (!(size > 0)) return step;
  Matrix<T> direction = Matrix<T>::zeros(d, columns), image(d, columns), z(problem.rows(), problem.outputs());
  Matrix<T> residual = scaled<T>(1 / size, gradient);
  Matrix<T> preconditioned = preconditioner.apply(residual), search = duplicate(preconditioned);
  double rho = inner(residual, preconditioned);
  const double target = tolerance * std::sqrt(std::max(rho, 0.0));
  while (step.inner < cap && rho > 0 && !expired()) {
    tangent.normal_product(search, z, image);
    add_of(static_cast<T>(mu), search, image);
    const double bend = inner(search, image);
    if (!(bend > 0)) break;
    const double alpha = rho / bend;
    add_of(static_cast<T>(alpha), search, direction);
    add_of(static_cast<T>(-alpha), image, residual);
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

template Matrix<float> Preconditioner::apply(const Matrix<float>&) const;
template Matrix<double> Preconditioner::apply(const Matrix<double>&) const;
template Step solve_step(const Tangent<float>&, const Matrix<double>&, double, double, int,
                         const Preconditioner&, const std::function<bool()>&);
template Step solve_step(const Tangent<double>&, const Matrix<double>&, double, double, int,
                         const Preconditioner&, const std::function<bool()>&);

}  // namespace headlens
