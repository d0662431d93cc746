// A recovery problem of backend/layer_problem.hpp on the processor, with its linear part eliminated
// (readout.hpp): what is the same for every way to make Phi of the parameters.
#pragma once

#include "cpu/layer/readout.hpp"

namespace headlens::cpu {

class ReadoutProblem : public backend::LayerProblem {
 public:
  // The views of the examples outlive this.
  ReadoutProblem(const backend::LayerExamples& examples, int threads,
                 comm::Communicator& ranks = comm::serial());

  Index rows() const final { return x_.rows; }
  Index dim() const final { return x_.cols; }
  Index outputs() const final { return y_.cols; }
  double y_squares() const final { return y_squares_; }

  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& point) const final;
  void solve_for_w(double ridge, backend::LayerPoint& point) const final;
  Matrix<double> residual(const backend::LayerPoint& point) const final;

  MatrixView<const double> x() const { return x_; }
  int threads() const { return threads_; }
  comm::Communicator& ranks() const { return ranks_; }  // that have the other rows

 protected:
  const SeenLabels* seen() const { return &seen_; }

 private:
  // point.phi from point.parameters, and whatever derivatives will need.
  virtual void make_features(ReadoutPoint& point) const = 0;

  MatrixView<const double> x_, y_;
  SeenLabels seen_;
  int threads_;
  comm::Communicator& ranks_;
  double y_squares_;
};

}  // namespace headlens::cpu
