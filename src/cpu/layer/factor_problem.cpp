#include "cpu/layer/factor_problem.hpp"

#include <utility>

#include "cpu/layer/factor_model.hpp"
#include "linalg/multiply.hpp"

namespace headlens::cpu {

FactorProblem::FactorProblem(const backend::LayerExamples& examples, backend::HeadRanks ranks, int threads)
    : ReadoutProblem(examples.x, examples.y, threads),
      ranks_(std::move(ranks)),
      map_(x(), examples.tokens, ranks_, threads) {}

std::unique_ptr<backend::LayerPoint> FactorProblem::make_point() const {
  auto point = std::make_unique<FactorPoint>(rows(), ranks_.value_columns(), outputs());
  point->z = map_.make_activations();
  point->p = map_.make_attention();
  return point;
}

void FactorProblem::make_features(ReadoutPoint& at) const {
  FactorPoint& point = as_factor_point(at);
  map_.evaluate(point.parameters, point.z, point.p, point.phi);
}

void FactorProblem::gradient(const backend::LayerPoint& at, MatrixView<double> dp) const {
  const FactorPoint& point = as_factor_point(at);
  Matrix<double> g(rows(), ranks_.value_columns());
  multiply(Trans::no, Trans::yes, 1.0, point.residual.view(), point.w.view(), 0.0, g.view(), threads());
  map_.adjoint(point.z, point.p, g, dp);
}

std::unique_ptr<backend::LinearModel> FactorProblem::make_linear_model() const {
  return std::make_unique<FactorModel>(*this);
}

}  // namespace headlens::cpu
