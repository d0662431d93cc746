// The linear model of backend/layer_problem.hpp for the problem in factors: J dp = dPhi O.
//
// One product with J^T P_perp J costs 20 n k d^2 flops for a = b = d = e. The equations of a step need few
// digits, so most are solved in float.
#pragma once

#include <optional>

#include "cpu/layer/factor_curvature.hpp"
#include "cpu/layer/factor_problem.hpp"

namespace headlens::cpu {

// The derivative of the projected residual at one point, in the precision T: applied, never formed.
template <class T>
class FactorTangent {
 public:
  explicit FactorTangent(const FactorProblem& problem);
  void move_to(const FactorPoint& point);
  void derivative(MatrixView<const T> dp, MatrixView<T> image) const;
  void project(MatrixView<T> image) const;
  void adjoint(MatrixView<const T> image, MatrixView<T> dp) const;
  // out = J^T P_perp J a. image (n k, e) is left as P_perp J a.
  void normal_product(MatrixView<const T> a, MatrixView<T> image, MatrixView<T> out) const;
  const FactorProblem& problem() const { return problem_; }
  MatrixView<const T> orthonormal() const { return q_.view(); }

 private:
  const FactorProblem& problem_;
  Matrix<T> x_;
  FactorMap<T> map_;
  Matrix<T> z_, p_, o_, q_;
};

class FactorModel final : public backend::LinearModel {
 public:
  explicit FactorModel(const FactorProblem& problem) : problem_(problem) {}

  void move_to(const backend::LayerPoint& point) override;
  void refresh_preconditioner(const backend::LayerPoint& point) override;
  void shift_preconditioner(double mu) override { curvature_.shift(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override;
  Matrix<double> precondition(const Matrix<double>& a) const override { return curvature_.apply(a); }
  void derivative(MatrixView<const double> dp, MatrixView<double> z) override {
    in_double().derivative(dp, z);
  }
  void project(MatrixView<double> z) override { in_double().project(z); }
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override { in_double().adjoint(z, dp); }
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override;
  Matrix<double> best_w(MatrixView<const double> z) override;

 private:
  // A tangent is moved to the point when the point is first used in that precision.
  template <class T>
  struct Lazy {
    std::optional<FactorTangent<T>> tangent;
    bool moved = false;
  };
  template <class T>
  const FactorTangent<T>& at_point(Lazy<T>& lazy);
  const FactorTangent<double>& in_double() { return at_point(double_); }

  const FactorProblem& problem_;
  const FactorPoint* point_ = nullptr;
  FactorCurvature curvature_;
  Lazy<float> single_;
  Lazy<double> double_;
  Matrix<double> image_;  // (n k, e), scratch
};

}  // namespace headlens::cpu
