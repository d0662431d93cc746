// The residual of a TiedProblem near a point, to first order: J dp = dPhi O, applied and never formed.
//
// The preconditioner is one number for all queries, one for all keys and one for all values: the curvature
// |P_perp J dp|^2 / |dp|^2 along a random direction of each.
#pragma once

#include <array>

#include "refit/tied_problem.hpp"

namespace headlens::refitting {

class TiedModel final : public backend::LinearModel {
 public:
  explicit TiedModel(const TiedProblem& problem);
  void move_to(const backend::LayerPoint& point) override;
  void refresh_preconditioner(const backend::LayerPoint& point) override;
  void shift_preconditioner(double mu) override { mu_ = mu; }
  // In double, whatever the precision that is asked for.
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override;
  Matrix<double> precondition(const Matrix<double>& a) const override;

  void derivative(MatrixView<const double> dp, MatrixView<double> z) override;
  void project(MatrixView<double> z) override;
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override;
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override;
  Matrix<double> best_w(MatrixView<const double> z) override;

 private:
  const TiedProblem& problem_;
  const TiedPoint* point_ = nullptr;
  Matrix<double> features_, image_;           // (n k, features) and (n k, e), scratch
  std::array<double, 3> curvature_{1, 1, 1};  // of queries, keys and values
  double mu_ = 0;
};

}  // namespace headlens::refitting
