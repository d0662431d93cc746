// (G + shift I) X = B for a symmetric G, by Cholesky with iterative refinement.
//
// One n x n array serves as both matrix and factor: G's lower triangle is mirrored to the upper one, the
// lower one becomes L, and the residual is taken with the upper one. n^3/3 + 8 n^2 q flops, no other n x n
// array. Refinement stops when the residual no longer halves, after two steps at most.
#pragma once

#include <vector>

#include "linalg/cholesky.hpp"

namespace headlens {

struct [[nodiscard]] RegularisedSolve {
  CholeskyStatus status = CholeskyStatus::ok;
  Index pivot = 0;               // as in CholeskyResult
  double relative_residual = 0;  // max over columns of |b - (G + shift I) x| / |b|, 0 where b = 0

  bool ok() const { return status == CholeskyStatus::ok; }
};

// gram: lower triangle valid on entry; destroyed, and kept as a view.
class RegularisedFactor {
 public:
  // Mirrors, shifts and factors.
  RegularisedFactor(MatrixView<double> gram, double shift, int threads);

  const CholeskyResult& result() const { return result_; }  // solve() needs an ok one
  // solution: n x q. Returns the relative residual, as in RegularisedSolve.
  double solve(MatrixView<const double> rhs, MatrixView<double> solution);

 private:
  void residual(MatrixView<const double> b, MatrixView<const double> x, MatrixView<double> out);
  void swap_diagonal();

  MatrixView<double> a_;  // the original in the upper triangle, the factor in the lower one
  int threads_;
  std::vector<double> diagonal_;  // the one of the two that is not in a_
  CholeskyResult result_;
};

// gram: as above. solution: n x q, untouched unless the status is ok.
RegularisedSolve solve_regularised(MatrixView<double> gram, double shift, MatrixView<const double> rhs,
                                   MatrixView<double> solution, int threads);

}  // namespace headlens
