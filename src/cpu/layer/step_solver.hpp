// (J^T P_perp J + mu) dp = gradient by preconditioned conjugate gradients from zero, on the gradient divided
// by its norm: float has no room for small gradients.
//
// The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last residual); both halves are doubled
// here, since cost is |r|^2 and not half of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/layer_problem.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {

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

// Tangent: normal_product(a, image, out) and problem() with rows() and outputs(). Preconditioner: apply(a).
template <class T, class Tangent, class Preconditioner>
backend::Step solve_step(const Tangent& tangent, const Matrix<double>& gradient, double mu, double tolerance,
                         int cap, const Preconditioner& preconditioner,
                         const std::function<bool()>& expired) {
  const Index d = gradient.rows(), columns = gradient.cols();
  const double size = std::sqrt(squared_norm(gradient));
  backend::Step step{Matrix<double>::zeros(d, columns), 0, 0};
  if (!(size > 0)) return step;
  Matrix<T> direction = Matrix<T>::zeros(d, columns), image(d, columns),
            z(tangent.problem().rows(), tangent.problem().outputs());
  Matrix<T> residual = scaled<T>(1 / size, gradient);
  Matrix<T> preconditioned = preconditioner.apply(residual), search = copy_of(preconditioned);
  double rho = inner(residual, preconditioned);
  const double target = tolerance * std::sqrt(std::max(rho, 0.0));
  while (step.inner < cap && rho > 0 && !expired()) {
    tangent.normal_product(search.view(), z.view(), image.view());
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

}  // namespace headlens::cpu
