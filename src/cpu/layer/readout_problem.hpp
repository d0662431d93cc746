// A recovery problem of backend/layer_problem.hpp on the processor, with its linear part eliminated
// (readout.hpp): what is the same for every way to make Phi of the parameters.
#pragma once

#include "cpu/layer/readout.hpp"

namespace headlens::cpu {

class ReadoutProblem : public backend::LayerProblem {
 public:
  // x (n k, d), y (n k, e): views that outlive this.
  ReadoutProblem(MatrixView<const double> x, MatrixView<const double> y, int threads);

  Index rows() const final { return x_.rows; }
  Index dim() const final { return x_.cols; }
  Index outputs() const final { return y_.cols; }
  double y_squares() const final { return y_squares_; }

  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& point) const final;
  void solve_for_w(double ridge, backend::LayerPoint& point) const final;
  Matrix<double> residual(const backend::LayerPoint& point) const final;

  MatrixView<const double> x() const { return x_; }
  int threads() const { return threads_; }

 private:
  // point.phi from point.parameters, and whatever derivatives will need.
  virtual void make_features(ReadoutPoint& point) const = 0;

  MatrixView<const double> x_, y_;
  int threads_;
  double y_squares_;
};

}  // namespace headlens::cpu
