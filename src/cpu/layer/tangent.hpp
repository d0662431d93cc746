// The derivative of the projected residual at one point, P_perp J, in the precision T: applied, never formed.
// P_perp is that of readout.hpp.
#pragma once

#include "cpu/layer/variable_projection.hpp"

namespace headlens::cpu {

template <class T>
class Tangent {
 public:
  explicit Tangent(const VariableProjection& problem);
  void move_to(const Point& point);  // a linearised one

  // z (n k, e) = J dtheta
  void derivative(MatrixView<const T> dtheta, MatrixView<T> z) const;
  void project(MatrixView<T> z) const;  // z = P_perp z
  // dtheta (d, m d) = J^T z
  void adjoint(MatrixView<const T> z, MatrixView<T> dtheta) const;

  const VariableProjection& problem() const { return problem_; }

 private:
  const VariableProjection& problem_;
  Matrix<T> x_;
  AttentionMap<T> map_;
  Matrix<T> p_, values_, values_t_, q_;  // (n k m, k), (n m k, e), (n e, m k), (n k, m d)
};

}  // namespace headlens::cpu
