// The layer in its factors (backend/factors.hpp) as a function of all parameters at once, with derivatives,
// for a fixed set of examples. One product Z = X [Q | K | V] serves all heads; then, for every example and
// head, with q, k, v the columns of Z that belong to the head,
//
//   P = softmax(q k^T)  (k, k),      Phi_i = P v  (k, b_i)
//   along dZ = X dparameters:  dL = dq k^T + q dk^T,  dP = P * (dL - <P, dL>),  dPhi_i = dP v + P dv
//   adjoint of G (k, b_i):     T = G v^T,  C = P * (T - <P, T>),  dq = C k,  dk = C^T q,  dv = P^T G
//
// and dparameters = X^T dZ, where queries and keys are turned by their positions before, and back, if there
// are any. Heads that share keys and values add up in dk and dv. Each costs 2 n k d (2 a + b) flops and 2 n k
// k (2 a + b) in small products. Examples are cut into fixed groups whose sums are added in order, so threads
// do not change a bit.
#pragma once

#include "attention/example_map.hpp"
#include "backend/layer_problem.hpp"

namespace headlens::cpu {

template <class T>
class FactorMap final : public ExampleMap<T> {
 public:
  using typename ExampleMap<T>::In;
  using typename ExampleMap<T>::Out;
  FactorMap(In x, Index tokens, const backend::HeadRanks& ranks, const std::vector<Index>& lengths,
            int threads);
  // The same map for the same tokens in another precision.
  template <class U>
  FactorMap<U> converted(MatrixView<const U> x) const {
    return {x, this->tokens_, ranks_, this->lengths_, this->threads_};
  }
  const backend::HeadRanks& ranks() const { return ranks_; }

  // z = X (Q | K | V), turned where positions turn; p: attention of every head; phi = (P^1 X V_1, .., P^m X
  // V_m)
  void evaluate(In parameters, Out z, Out p, Out phi) const;
  // of phi, along dparameters
  void derivative(In z, In p, In dparameters, Out dphi) const;
  // dparameters (d, 2 a + b) = sum over rows of <g, dPhi / dparameters>, g (n k, b).
  void adjoint(In z, In p, In g, Out dparameters) const;

 private:
  using typename ExampleMap<T>::Block;
  void images(In parameters, Block here, Out z) const;
  void turn_parts(Out z, T sign) const;
  void take_back(In z, In p, In g, Index example, Out back) const;

  backend::HeadRanks ranks_;
  std::vector<backend::HeadColumns> columns_;
};

// F (n k, e) of the tokens of examples, a few thousand rows at a time.
Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads);

}  // namespace headlens::cpu
