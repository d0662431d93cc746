// The linear model of backend/layer_problem.hpp on the processor, with the preconditioner I_d x (B + mu) in
// which B is the curvature of the problem at some point nearby.
//
// The equations of a Levenberg-Marquardt step need few digits, so most are solved in float, at half the cost.
#pragma once

#include <functional>
#include <optional>

#include "cpu/layer/tangent.hpp"

namespace headlens::cpu {

class Preconditioner {
 public:
  void refresh(const VariableProjection& problem, const Point& point);
  void shift(double mu);
  // a (B + mu)^-1 for a (d, m d); a itself if B + mu cannot be factored.
  template <class T>
  Matrix<T> apply(const Matrix<T>& a) const;

 private:
  Matrix<double> curvature_, factor_;
  Matrix<float> factor_single_;
  int threads_ = 1;
  bool usable_ = false;
};

class ProjectedModel final : public backend::LinearModel {
 public:
  explicit ProjectedModel(const VariableProjection& problem) : problem_(problem) {}

  void move_to(const backend::LayerPoint& point) override;
  void refresh_preconditioner(const backend::LayerPoint& point) override;
  void shift_preconditioner(double mu) override { preconditioner_.shift(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override;
  Matrix<double> precondition(const Matrix<double>& a) const override { return preconditioner_.apply(a); }
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
    std::optional<Tangent<T>> tangent;
    bool moved = false;
  };
  template <class T>
  const Tangent<T>& at_point(Lazy<T>& lazy);
  const Tangent<double>& in_double() { return at_point(double_); }

  const VariableProjection& problem_;
  const Point* point_ = nullptr;
  Preconditioner preconditioner_;
  Lazy<float> single_;
  Lazy<double> double_;
  Matrix<double> image_;  // (n k, e), scratch
};

}  // namespace headlens::cpu
