// The linear model of backend/layer_problem.hpp on the processor, with the preconditioner I_d x (B + mu) in
// which B is the curvature of the problem at some point nearby.
#pragma once

#include "cpu/layer/tangent.hpp"
#include "cpu/layer/tangent_model.hpp"

namespace headlens::cpu {

class Preconditioner {
 public:
  void refresh(const VariableProjection& problem, const Point& point);
  void set(Matrix<double> curvature, int threads);
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

using ProjectedModel = TangentModel<VariableProjection, Point, Tangent, Preconditioner>;

}  // namespace headlens::cpu
