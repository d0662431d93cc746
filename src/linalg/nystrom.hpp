// Randomised Nystrom preconditioner for A + mu I, A symmetric positive semidefinite and given only as a
// product.
//
// From a sketch Y = A Omega with l orthonormal random columns, A is approximated by U diag(lambda) U^T, and
//
//   P^-1 x = (lambda_l + mu) U (diag(lambda) + mu)^-1 U^T x + (x - U U^T x).
//
// If l is about twice the number of eigenvalues above mu, the preconditioned condition number is a small
// constant. One product with A on l columns, then 10 n l^2 flops; each application 4 n l per column. The same
// sketch serves every mu. Frangella, Tropp, Udell, "Randomized Nystrom preconditioning", 2021, algorithms 2.1
// and 5.3.
#pragma once

#include <cstdint>
#include <vector>

#include "linalg/block_operator.hpp"

namespace headlens {

class NystromPreconditioner {
 public:
  NystromPreconditioner() = default;  // the identity
  // values: descending, positive; vectors: n x values.size(), orthonormal columns; tail: the eigenvalue
  // assumed for all other directions.
  NystromPreconditioner(std::vector<double> values, Matrix<double> vectors, double tail);

  Index rank() const { return vectors_.cols(); }
  const std::vector<double>& values() const { return values_; }  // lambda
  MatrixView<const double> vectors() const { return vectors_; }  // U

  // out = P^-1 in for n x q blocks, mu >= 0. Where the sketch has found all of A (it met eigenvalues that are
  // mere rounding), lambda_l is taken as 0 and P is A + mu I itself, up to scale.
  void apply(double mu, MatrixView<const double> in, MatrixView<double> out, int threads) const;

 private:
  std::vector<double> values_;
  Matrix<double> vectors_;
  double tail_ = 0;
};

enum class NystromStatus {
  ok,
  not_positive_semidefinite,  // A is not, beyond rounding
  not_finite,                 // A gave NaN or infinity
};

struct [[nodiscard]] NystromResult {
  NystromStatus status = NystromStatus::ok;
  NystromPreconditioner preconditioner;  // the identity unless ok

  bool ok() const { return status == NystromStatus::ok; }
};

// rank columns at most n; directions whose eigenvalue cannot be told from rounding are dropped, so A = 0
// gives rank 0.
NystromResult build_nystrom(const BlockOperator& a, Index n, Index rank, std::uint64_t seed, int threads);

}  // namespace headlens
