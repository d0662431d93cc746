// The linear model of backend/layer_problem.hpp for the problem in factors: J dp = dPhi O.
//
// One product with J^T P_perp J costs 20 n k d^2 flops for a = b = d = e. The equations of a step need few
// digits, so most are solved in float.
#pragma once

#include "cpu/layer/factor_curvature.hpp"
#include "cpu/layer/factor_problem.hpp"
#include "cpu/layer/tangent_model.hpp"

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
  const FactorProblem& problem() const { return problem_; }
  MatrixView<const T> orthonormal() const { return q_.view(); }

 private:
  const FactorProblem& problem_;
  Matrix<T> x_;
  FactorMap<T> map_;
  Matrix<T> z_, p_, o_, q_;
};

using FactorModel = TangentModel<FactorProblem, FactorPoint, FactorTangent, FactorCurvature>;

}  // namespace headlens::cpu
