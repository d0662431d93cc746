#include "cpu/layer/factor_problem.hpp"

#include "cpu/layer/factor_curvature.hpp"

namespace headlens::cpu {

std::unique_ptr<backend::LinearModel> FactorProblem::make_linear_model() const {
  return std::make_unique<TangentModel<FactorProblem, FactorPoint, FactorTangent, FactorCurvature>>(*this);
}

}  // namespace headlens::cpu
