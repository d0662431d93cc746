// The recovery problem of backend/layer_problem.hpp in the factors Q, K and V, on the processor.
//
// One product with J^T P_perp J costs 20 n k d^2 flops for a = b = d = e. The equations of a step need few
// digits, so most are solved in float.
#pragma once

#include "cpu/layer/activation_problem.hpp"
#include "cpu/layer/factor_map.hpp"

namespace headlens::cpu {

using FactorPoint = ActivationPoint;  // parameters (d, 2 a + b), w = O (b, e), phi (n k, b)

class FactorProblem final : public ActivationProblem<FactorMap<double>> {
 public:
  FactorProblem(const backend::LayerExamples& examples, const backend::HeadRanks& head_ranks, int threads,
                comm::Communicator& ranks = comm::serial())
      : ActivationProblem(examples, {examples.x, examples.tokens, head_ranks, examples.lengths, threads},
                          threads, ranks) {}

  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  const backend::HeadRanks& head_ranks() const { return map().ranks(); }
};

template <class T>
using FactorTangent = ActivationTangent<T, FactorMap>;

}  // namespace headlens::cpu
