// The kernel of attention with heads around b times the identity, on functions (1/N) sum_i h(x_0, x_i).
//
// On pairs of tokens, t = <x_0, x>, t' = <x_0', x'>, u = <x_0, x_0'>, v = <x, x'>,
//
//   K = (1 + v) E[relu(b t + g) relu(b t' + g')] = sum_k c_k(b t) c_k(b t') / k! 4^-k (1 + u)^k (1 + v)^(k+1)
//
// (relu_series.hpp), and (1 + u)^k (1 + v)^(k+1) is diagonal in products of harmonics. So on the lattice of a
// representation of the joint rotations, X the matrix of multiplication by t (rotation_lattice.hpp),
//
//   K = sum_k C_k W_k C_k,    C_k = c_k(b X) / sqrt(k!),    W_k = diag( 4^-k m(k, a) m(k + 1, b) ),
//
// m as in attention_spectrum.hpp. On sets, functions with key degree above 0 have 1/N of the mean square, and
// K becomes S K S with S = 1 for key degree 0, 1/sqrt(N) above.
#pragma once

#include <functional>

#include "theory/rotation_lattice.hpp"

namespace headlens {

// f(<x_0, x>) e_ab for the basis function e_ab at `start`, times a factor.
struct RotationTarget {
  RotationType type;
  LatticePoint start;
  std::function<double(double)> function;  // null: 1
  double factor = 1;
  bool pure = false;  // without the parts of degree 0 in x_0 or in x
};

// K on the points of a type with degrees up to these, and a target's coefficients there.
struct BiasedBlock {
  std::vector<LatticePoint> points;
  Matrix<double> kernel;
  std::vector<double> target;  // empty: none asked for
  double beyond = 0;           // mean square of the target's other coefficients
};

class BiasedKernel {
 public:
  BiasedKernel(Index dim, double bias) : dim_(dim), bias_(bias) {}

  // The lattice is cut off `margin` degrees further out, the series in k after 6 times as many terms.
  BiasedBlock block(RotationType type, Index most_query, Index most_key,
                    const RotationTarget* target = nullptr) const;

  double diagonal() const;      // E[K(x, x)] for one key
  double between_keys() const;  // E[K] for one query and two keys, the same on both sides but the keys
  double most() const;          // K(x, x) is at most this

  Index dim() const { return dim_; }

 private:
  Index margin() const;

  Index dim_;
  double bias_;
};

}  // namespace headlens
