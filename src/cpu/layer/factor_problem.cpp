#include "cpu/layer/factor_problem.hpp"

#include <utility>

#include "cpu/layer/factor_model.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {

FactorProblem::FactorProblem(const backend::LayerExamples& examples, backend::HeadRanks ranks, int threads)
    : x_(examples.x),
      y_(examples.y),
      seen_(examples.seen),
      ranks_(std::move(ranks)),
      map_(x_, examples.tokens, ranks_, threads),
      threads_(threads),
      y_squares_(squared_norm(y_)) {}

std::unique_ptr<backend::LayerPoint> FactorProblem::make_point() const {
  auto point = std::make_unique<FactorPoint>();
  allocate_readout(*point, rows(), ranks_.value_columns(), outputs(), &seen_);
  point->z = map_.make_activations();
  point->p = map_.make_attention();
  return point;
}

void FactorProblem::evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& at) const {
  FactorPoint& point = as_factor_point(at);
  point.parameters = std::move(parameters);
  map_.evaluate(point.parameters, point.z, point.p, point.phi);
  gather_readout(y_, threads_, point);
  solve_for_w(ridge, point);
}

void FactorProblem::solve_for_w(double ridge, backend::LayerPoint& at) const {
  solve_readout(y_, y_squares_, ridge, threads_, as_factor_point(at));
}

Matrix<double> FactorProblem::residual(const backend::LayerPoint& at) const {
  return copy_of(as_factor_point(at).residual);
}

void FactorProblem::gradient(const backend::LayerPoint& at, MatrixView<double> dp) const {
  const FactorPoint& point = as_factor_point(at);
  Matrix<double> g(rows(), ranks_.value_columns());
  multiply(Trans::no, Trans::yes, 1.0, point.residual.view(), point.w.view(), 0.0, g.view(), threads_);
  map_.adjoint(point.z, point.p, g, dp);
}

std::unique_ptr<backend::LinearModel> FactorProblem::make_linear_model() const {
  return std::make_unique<FactorModel>(*this);
}

}  // namespace headlens::cpu
