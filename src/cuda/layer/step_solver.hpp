// (J^T P_perp J + mu) dp = gradient by preconditioned conjugate gradients, all vectors on the device: the
// twin of cpu/layer/step_solver.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "cuda/layer/factor_curvature.hpp"
#include "cuda/layer/factor_model.hpp"
#include "cuda/layer/vectors.hpp"
#include "linalg/cg_recurrence.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cuda {

struct StepRequest {
  const Matrix<double>& gradient;
  double mu, tolerance;
  int cap, threads;
  const std::function<bool()>& expired;
};

// From d = 0, with g divided by its norm: float has no room for small gradients.
template <class T>
class StepSystem final : public CgSystem {
 public:
  StepSystem(const FactorTangent<T>& tangent, const FactorCurvature& curvature, const StepRequest& request,
             DeviceMatrix<T> gradient, DeviceMatrix<T> image)
      : tangent_(tangent),
        curvature_(curvature),
        request_(request),
        direction_(gradient.rows(), gradient.cols()),
        search_(gradient.rows(), gradient.cols()),
        product_(gradient.rows(), gradient.cols()),
        preconditioned_(gradient.rows(), gradient.cols()),
        image_(std::move(image)),
        residual_(std::move(gradient)) {
    direction_.clear();
    search_.clear();
    precondition();
    target_ = request.tolerance * std::sqrt(std::max(inner(residual_, preconditioned_), 0.0));
  }

  Columns sizes() override { return {inner(residual_, preconditioned_)}; }
  bool goes_on(const Columns& sizes) override {
    return sizes[0] > 0 && (iterations_ == 0 || std::sqrt(sizes[0]) > target_) && !request_.expired();
  }
  void turn(const Columns& beta) override {
    scale_and_add(beta[0], preconditioned_.data(), search_.size(), search_.data());
  }
  Columns curvatures() override {
    tangent_.normal_product(std::as_const(search_).view(), image_, product_.view());
    add_scaled(request_.mu, search_.data(), search_.size(), product_.data());
    return {inner(search_, product_)};
  }
  bool move(const Columns& alpha) override {
    if (!(alpha[0] > 0)) return false;
    add_scaled(alpha[0], search_.data(), search_.size(), direction_.data());
    add_scaled(-alpha[0], product_.data(), search_.size(), residual_.data());
    precondition();
    ++iterations_;
    return true;
  }

  const DeviceMatrix<T>& direction() const { return direction_; }
  const DeviceMatrix<T>& residual() const { return residual_; }
  int iterations() const { return iterations_; }

 private:
  static double inner(const DeviceMatrix<T>& a, const DeviceMatrix<T>& b) {
    return inner_product(a.data(), b.data(), a.size());
  }
  void precondition() {
    convert(residual_.data(), residual_.size(), preconditioned_.data());
    curvature_.apply(preconditioned_);
  }

  const FactorTangent<T>& tangent_;
  const FactorCurvature& curvature_;
  const StepRequest& request_;
  DeviceMatrix<T> direction_, search_, product_, preconditioned_, image_, residual_;
  double target_ = 0;
  int iterations_ = 0;
};

template <class T>
backend::Step solve_step(const FactorTangent<T>& tangent, const FactorCurvature& curvature,
                         const StepRequest& request, Index rows, Index outputs) {
  const double size = std::sqrt(squared_norm(request.gradient));
  if (!(size > 0)) return {Matrix<double>::zeros(request.gradient.rows(), request.gradient.cols()), 0, 0};
  const DeviceMatrix<double> exact = upload<double>(request.gradient.view(), request.threads);
  scale(1 / size, exact.size(), exact.data());
  DeviceMatrix<T> gradient(exact.rows(), exact.cols()), start(exact.rows(), exact.cols());
  convert(exact.data(), exact.size(), gradient.data());
  convert(exact.data(), exact.size(), start.data());
  StepSystem<T> system(tangent, curvature, request, std::move(start), DeviceMatrix<T>(rows, outputs));
  iterate(system, request.cap);
  const DeviceMatrix<T>&direction = system.direction(), &residual = system.residual();
  const auto with_direction = [&](const DeviceMatrix<T>& a) {
    return inner_product(direction.data(), a.data(), a.size());
  };
  backend::Step step{download(direction, request.threads), 0, system.iterations()};
  for (Index i = 0; i < direction.size(); ++i) step.direction.data()[i] *= size;
  // As on the processor: the model falls by <d, g + r> + mu |d|^2.
  step.predicted =
      size * size *
      (with_direction(gradient) + with_direction(residual) + request.mu * with_direction(direction));
  return step;
}

}  // namespace headlens::cuda
