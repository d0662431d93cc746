// The linear model of backend/layer_problem.hpp around the problem in factors on the device: J dp = dPhi O.
// The equations of a step are solved there; the step alone comes back.
#pragma once

#include <optional>

#include "cuda/layer/factor_curvature.hpp"
#include "cuda/layer/factor_problem.hpp"

namespace headlens::cuda {

// The derivative of the projected residual at one point, in the precision T: applied, never formed.
template <class T>
class FactorTangent {
 public:
  explicit FactorTangent(const FactorProblem& problem);
  void move_to(const FactorPoint& point);
  void derivative(MatrixView<const T> dp, DeviceMatrix<T>& image) const;
  void project(DeviceMatrix<T>& image) const;
  void adjoint(const DeviceMatrix<T>& image, MatrixView<T> dp) const;
  // out = J^T P_perp J a. image (n k, e) is left as P_perp J a.
  void normal_product(MatrixView<const T> a, DeviceMatrix<T>& image, MatrixView<T> out) const;

  MatrixView<const T> x() const { return x_.view(); }
  const DeviceMatrix<T>& z() const { return z_; }
  const DeviceMatrix<T>& p() const { return p_; }
  const DeviceMatrix<T>& o() const { return o_; }
  const DeviceMatrix<T>& orthonormal() const { return q_; }

 private:
  DeviceMatrix<T> x_, z_, p_, o_, q_, cores_;
  const SeenLabels& seen_;
  FactorMap<T> map_;
};

class FactorModel final : public backend::LinearModel {
 public:
  explicit FactorModel(const FactorProblem& problem) : problem_(problem) {}

  void move_to(const backend::LayerPoint& point) override;
  void refresh_preconditioner(const backend::LayerPoint& point) override;
  void shift_preconditioner(double mu) override { curvature_.shift(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override;
  Matrix<double> precondition(const Matrix<double>& a) const override;
  void derivative(MatrixView<const double> dp, MatrixView<double> z) override;
  void project(MatrixView<double> z) override;
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override;
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override;
  Matrix<double> best_w(MatrixView<const double> z) override;
  void respond(MatrixView<const double> nu, MatrixView<double> dp) override;
  Matrix<double> respond_in_w(MatrixView<const double> nu, MatrixView<const double> dp) override;
  std::unique_ptr<backend::Directions> directions() override;
  std::unique_ptr<backend::Directions> directions(const backend::FixedGauge& gauge) override;

  // The same on the device.
  void normal_product(const DeviceMatrix<double>& a, DeviceMatrix<double>& out);
  void precondition(DeviceMatrix<double>& a) const { curvature_.apply(a); }

 private:
  // A tangent is moved to the point when the point is first used in that precision.
  template <class T>
  struct Lazy {
    std::optional<FactorTangent<T>> tangent;
    bool moved = false;
  };
  template <class T>
  const FactorTangent<T>& at_point(Lazy<T>& lazy);

  const FactorProblem& problem_;
  const FactorPoint* point_ = nullptr;
  FactorCurvature curvature_;
  Lazy<float> single_;
  Lazy<double> double_;
};

}  // namespace headlens::cuda
