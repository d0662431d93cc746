// The layer in its factors (backend/factors.hpp) as a function of all parameters at once
// (attention/factored_head_map.hpp), for a fixed set of examples.
#pragma once

#include "attention/factored_head_map.hpp"
#include "backend/layer_problem.hpp"

namespace headlens::cpu {

template <class T>
class FactorMap final : public FactoredHeadMap<T> {
 public:
  using typename FactoredHeadMap<T>::In;
  using typename FactoredHeadMap<T>::Out;
  FactorMap(In x, Index tokens, const backend::HeadRanks& ranks, const std::vector<Index>& lengths,
            int threads);
  // The same map for the same tokens in another precision.
  template <class U>
  FactorMap<U> converted(MatrixView<const U> x) const {
    return {x, this->tokens_, ranks_, this->lengths_, this->threads_};
  }
  const backend::HeadRanks& ranks() const { return ranks_; }

  // As of every map of heads, and zero where the factors of a layer with biases are fixed.
  void adjoint(In z, In p, In g, Out dparameters) const;

 private:
  backend::HeadRanks ranks_;
};

// F (n k, e) of the tokens of examples, a few thousand rows at a time.
Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads);

}  // namespace headlens::cpu
