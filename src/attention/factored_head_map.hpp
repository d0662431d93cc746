// A layer in factors as a function of all of them at once, with derivatives, for a fixed set of examples. One
// product Z = X [Q | K | V] serves all heads; then, for every example and head, with q, k, v the columns of Z
// that belong to the head,
//
//   P = softmax(q k^T)  (k, k),      Phi_i = P v  (k, values)
//   along dZ = X dparameters:  dL = dq k^T + q dk^T,  dP = P * (dL - <P, dL>),  dPhi_i = dP v + P dv
//   adjoint of G (k, values):  T = G v^T,  C = P * (T - <P, T>),  dq = C k,  dk = C^T q,  dv = P^T G
//
// and dparameters = X^T dZ, where queries and keys are turned by their positions before, and back, if there
// are any. Heads that share keys and values have the same columns of K and V and add up in dk and dv. For c
// columns each of the three costs 2 n k d c flops and about 2 n k k c in small products (one_head.hpp).
// Examples are cut into fixed groups whose sums are added in order, so threads do not change a bit.
#pragma once

#include <vector>

#include "attention/example_map.hpp"
#include "attention/one_head.hpp"
#include "base/head_columns.hpp"

namespace headlens {

struct FactoredHeadShape {
  ExampleMapShape common;
  std::vector<HeadColumns> heads;  // those of a group one after another
  Index turned = 0;                // the first so many parts of common.rank columns: queries and keys
  bool constant = false;           // Phi has a last column of ones
};

template <class T>
class FactoredHeadMap : public ExampleMap<T> {
 public:
  using typename ExampleMap<T>::In;
  using typename ExampleMap<T>::Out;
  using typename ExampleMap<T>::Block;

  // z = X [Q | K | V], turned where positions turn; p: attention of every head; phi = (P^1 v_1, .., P^m v_m)
  void evaluate(In parameters, Out z, Out p, Out phi) const;
  // of phi, along dparameters
  void derivative(In z, In p, In dparameters, Out dphi) const;
  // dparameters = sum over rows of <g, dPhi / dparameters>.
  void adjoint(In z, In p, In g, Out dparameters) const;

  // The same for one block of examples, on one thread; matrices hold its rows alone. back: dZ, turned back,
  // so that dparameters is the sum of X^T back over all blocks.
  void evaluate(Block here, In parameters, Out z, Out p, Out phi) const;
  void take_back(Block here, In z, In p, In g, Out back) const;

 protected:
  FactoredHeadMap(In x, Index tokens, FactoredHeadShape shape, const std::vector<Index>& lengths,
                  int threads);

 private:
  void images(In parameters, Block here, Out z) const;
  bool leads(Index head) const;
  template <class U>
  HeadImages<U> of_head(MatrixView<U> z, Index example, Index head) const;
  template <class U>
  MatrixView<U> share_of(MatrixView<U> phi, Index example, Index head) const;

  FactoredHeadShape shape_;
  OneHead<T> one_ = one_head<T>();
  Index room_ = 0;
};

}  // namespace headlens
