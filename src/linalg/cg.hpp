// Conjugate gradients for A X = B, A symmetric positive definite and given only as a product, with several
// right-hand sides: one recurrence per column, one product per iteration for all columns.
//
// The residual that ends the iteration is a true one, |b - A x|: when the recurrence says "converged" and the
// true residual disagrees, the iteration restarts from it. Sums are taken in a fixed order. The error in the
// A-norm falls by (sqrt(cond) - 1) / (sqrt(cond) + 1) per iteration.
#pragma once

#include <functional>

#include "linalg/block_operator.hpp"

namespace headlens {

enum class CgStatus {
  converged,
  stalled,  // out of iterations, or A or the preconditioner is not positive definite, or not finite
};

struct CgOptions {
  double tolerance = 1e-8;  // on |b - A x| / |b|, every column
  int max_iterations = 1000;
};

struct [[nodiscard]] CgResult {
  CgStatus status = CgStatus::converged;
  int iterations = 0;
  double relative_residual = 0;  // the true one of the worst column; absolute where b = 0

  bool ok() const { return status == CgStatus::converged; }
};

// Called after each iteration with the worst relative residual of the recurrence; may throw to cancel.
using CgCallback = std::function<void(int iteration, double relative_residual)>;

// solution: n x q, the first guess on entry (zeros if none). preconditioner: out = P^-1 in; empty for none.
CgResult conjugate_gradients(const BlockOperator& a, const BlockOperator& preconditioner,
                             MatrixView<const double> rhs, MatrixView<double> solution,
                             const CgOptions& options, const CgCallback& on_iteration = {});

}  // namespace headlens
