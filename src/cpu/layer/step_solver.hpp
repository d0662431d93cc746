// (J^T P_perp J + mu) dp = gradient by preconditioned conjugate gradients, for any way to apply J.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "backend/layer_problem.hpp"
#include "linalg/cg_recurrence.hpp"
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

// out = J^T P_perp J a. image (n k, e) is left as P_perp J a.
template <class T, class Tangent>
void normal_product(const Tangent& tangent, MatrixView<const T> a, MatrixView<T> image, MatrixView<T> out) {
  tangent.derivative(a, image);
  tangent.project(image);
  tangent.adjoint(image, out);
}

// Tangent: derivative, project, adjoint, and problem() with rows() and outputs(). Preconditioner: apply(a).
// From d = 0, with g divided by its norm: float has no room for small gradients.
template <class T, class Tangent, class Preconditioner>
class StepSystem final : public CgSystem {
 public:
  struct Stop {
    double tolerance;  // on the preconditioned norm of the residual, relative to that of the gradient
    const std::function<bool()>& expired;
  };
  StepSystem(const Tangent& tangent, const Preconditioner& preconditioner, Matrix<T> gradient, double mu,
             const Stop& stop)
      : tangent_(tangent),
        preconditioner_(preconditioner),
        mu_(mu),
        expired_(stop.expired),
        direction_(Matrix<T>::zeros(gradient.rows(), gradient.cols())),
        search_(Matrix<T>::zeros(gradient.rows(), gradient.cols())),
        image_(gradient.rows(), gradient.cols()),
        z_(tangent.problem().rows(), tangent.problem().outputs()),
        residual_(std::move(gradient)),
        preconditioned_(preconditioner.apply(residual_)),
        target_(stop.tolerance * std::sqrt(std::max(inner(residual_, preconditioned_), 0.0))) {}

  Columns sizes() override { return {inner(residual_, preconditioned_)}; }
  bool goes_on(const Columns& sizes) override {
    return sizes[0] > 0 && (iterations_ == 0 || std::sqrt(sizes[0]) > target_) && !expired_();
  }
  void turn(const Columns& beta) override {
    for (Index i = 0; i < search_.rows() * search_.cols(); ++i)
      search_.data()[i] = preconditioned_.data()[i] + static_cast<T>(beta[0]) * search_.data()[i];
  }
  Columns curvatures() override {
    normal_product<T>(tangent_, search_, z_, image_);
    add(static_cast<T>(mu_), search_, image_);
    return {inner(search_, image_)};
  }
  bool move(const Columns& alpha) override {
    if (!(alpha[0] > 0)) return false;
    add(static_cast<T>(alpha[0]), search_, direction_);
    add(static_cast<T>(-alpha[0]), image_, residual_);
    preconditioned_ = preconditioner_.apply(residual_);
    ++iterations_;
    return true;
  }

  const Matrix<T>& direction() const { return direction_; }
  const Matrix<T>& residual() const { return residual_; }
  int iterations() const { return iterations_; }

 private:
  const Tangent& tangent_;
  const Preconditioner& preconditioner_;
  double mu_;
  const std::function<bool()>& expired_;
  Matrix<T> direction_, search_, image_, z_, residual_, preconditioned_;
  double target_;
  int iterations_ = 0;
};

// The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last residual); both halves are doubled
// here, since cost is |r|^2 and not half of it.
template <class T, class Tangent, class Preconditioner>
backend::Step solve_step(const Tangent& tangent, const Matrix<double>& gradient, double mu, double tolerance,
                         int cap, const Preconditioner& preconditioner,
                         const std::function<bool()>& expired) {
  const double size = std::sqrt(squared_norm(gradient));
  if (!(size > 0)) return {Matrix<double>::zeros(gradient.rows(), gradient.cols()), 0, 0};
  StepSystem<T, Tangent, Preconditioner> system(tangent, preconditioner, scaled<T>(1 / size, gradient), mu,
                                                {tolerance, expired});
  iterate(system, cap);
  const Matrix<T>&direction = system.direction(), &residual = system.residual();
  backend::Step step{scaled<double>(size, direction), 0, system.iterations()};
  step.predicted = size * size *
                   (inner(direction, scaled<T>(1 / size, gradient)) + inner(direction, residual) +
                    mu * inner(direction, direction));
  return step;
}

}  // namespace headlens::cpu
