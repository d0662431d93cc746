// (J^T P_perp J + mu) dTheta = g by conjugate gradients, with the preconditioner I_d x (B + mu) in which B is
// the curvature of the problem at some point nearby. J is applied, never formed.
#pragma once

#include <functional>

#include "recover/tangent.hpp"

namespace headlens {

class Preconditioner {
 public:
  void refresh(const VariableProjection& problem, const VariableProjection::Point& point);
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

struct Step {
  Matrix<double> direction;
  double predicted = 0;  // decrease of |r|^2 that the linear model promises
  int inner = 0;
};

// The tangent has been moved to the point of the gradient. `expired`, asked before every iteration, ends the
// solve where it is.
template <class T>
Step solve_step(const Tangent<T>& tangent, const Matrix<double>& gradient, double mu, double tolerance,
                int cap, const Preconditioner& preconditioner, const std::function<bool()>& expired);

Matrix<double> copy_of(const Matrix<double>& a);
void add(double factor, const Matrix<double>& from, Matrix<double>& to);

}  // namespace headlens
