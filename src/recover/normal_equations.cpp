#include "recover/normal_equations.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"

namespace headlens {

void add(double factor, const Matrix<double>& from, Matrix<double>& to) {
  for (Index i = 0; i < from.rows() * from.cols(); ++i) to.data()[i] += factor * from.data()[i];
}

Matrix<double> copy_of(const Matrix<double>& a) {
  Matrix<double> out(a.rows(), a.cols());
  std::copy_n(a.data(), a.rows() * a.cols(), out.data());
  return out;
}

void Preconditioner::refresh(const VariableProjection& problem, const VariableProjection::Point& point) {
  curvature_ = problem.curvature(point, 32 * problem.heads() + 64);
}

void Preconditioner::shift(double mu) {
  factor_ = copy_of(curvature_);
  for (Index j = 0; j < factor_.rows(); ++j) factor_(j, j) += mu;
  usable_ = cholesky(factor_, 1).ok();
}

Matrix<double> Preconditioner::apply(const Matrix<double>& a) const {
  Matrix<double> out = copy_of(a);
  if (!usable_) return out;
  // x (L L^T)^-1 = (x L^-T) L^-1
  trsm(Side::right, Trans::yes, factor_.view(), out.view());
  trsm(Side::right, Trans::no, factor_.view(), out.view());
  return out;
}

void apply_normal_matrix(VariableProjection& problem, const VariableProjection::Point& point,
                         const Matrix<double>& a, Matrix<double>& image, Matrix<double>& out) {
  problem.derivative(point, a, image);
  problem.project(point, image);
  problem.adjoint(point, image, out);
}

// Conjugate gradients from zero. The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last
// residual); both halves are doubled here, since cost is |r|^2 and not half of it.
Step solve_step(VariableProjection& problem, const VariableProjection::Point& point,
                const Matrix<double>& gradient, double mu, double tolerance, int cap,
                const Preconditioner& preconditioner) {
  const Index d = problem.dim(), columns = problem.heads() * d;
  Step step{Matrix<double>::zeros(d, columns), 0, 0};
  Matrix<double> residual = copy_of(gradient), image(d, columns), z(problem.rows(), problem.outputs());
  Matrix<double> scaled = preconditioner.apply(residual), search = copy_of(scaled);
  double rho = inner_product(residual, scaled);
  const double target = tolerance * std::sqrt(std::max(rho, 0.0));
  while (step.inner < cap && rho > 0) {
    apply_normal_matrix(problem, point, search, z, image);
    add(mu, search, image);
    const double bend = inner_product(search, image);
    if (!(bend > 0)) break;
    const double alpha = rho / bend;
    add(alpha, search, step.direction);
    add(-alpha, image, residual);
    ++step.inner;
    scaled = preconditioner.apply(residual);
    const double next = inner_product(residual, scaled);
    if (!(std::sqrt(std::max(next, 0.0)) > target)) break;
    for (Index i = 0; i < d * columns; ++i)
      search.data()[i] = scaled.data()[i] + next / rho * search.data()[i];
    rho = next;
  }
  step.predicted = inner_product(step.direction, gradient) + inner_product(step.direction, residual) +
                   mu * squared_norm(step.direction);
  return step;
}

}  // namespace headlens
