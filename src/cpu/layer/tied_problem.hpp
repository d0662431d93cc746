// The recovery problem of backend/layer_problem.hpp for heads that share keys and values
// (attention/tied_map.hpp), on the processor.
#pragma once

#include <array>

#include "attention/tied_map.hpp"
#include "cpu/layer/activation_problem.hpp"

namespace headlens::cpu {

class TiedProblem final : public ActivationProblem<TiedMap<double>> {
 public:
  TiedProblem(const backend::LayerExamples& examples, const TiedShape& shape, int threads)
      : ActivationProblem(examples, {examples.x, examples.tokens, shape, examples.lengths, threads},
                          threads) {}

  std::unique_ptr<backend::LinearModel> make_linear_model() const override;
};

template <class T>
using TiedTangent = ActivationTangent<T, TiedMap>;

// One number for all queries, one for all keys and one for all values: the curvature |P_perp J dp|^2 / |dp|^2
// along a random direction of each.
class TiedCurvature {
 public:
  void refresh(const TiedProblem& problem, const ActivationPoint& point, const TiedTangent<float>& tangent);
  void shift(double mu) { mu_ = mu; }
  template <class T>
  Matrix<T> apply(const Matrix<T>& a) const;

 private:
  std::array<Index, 4> parts_{};  // where queries, keys and values begin, and the end
  std::array<double, 3> curvature_{1, 1, 1};
  double mu_ = 0;
};

}  // namespace headlens::cpu
