// Cholesky factorisation A = L L^T of a symmetric positive definite matrix, by tiles, in place.
//
// A is read and L written in the lower triangle. The strict upper triangle is left as it is, so a caller may
// keep the original matrix there (regularised.hpp does). n^3/3 flops; backward error |A - L L^T| <= c n eps
// |A|.
#pragma once

#include "linalg/matrix.hpp"

namespace headlens {

enum class CholeskyStatus { ok, not_positive_definite };

struct [[nodiscard]] CholeskyResult {
  CholeskyStatus status = CholeskyStatus::ok;
  Index pivot = 0;  // not_positive_definite: the first row whose pivot is not positive, or not a number

  bool ok() const { return status == CholeskyStatus::ok; }
};

// After a failure the lower triangle holds neither A nor L.
CholeskyResult cholesky(MatrixView<double> a, int threads);
CholeskyResult cholesky(MatrixView<float> a, int threads);

// B = (L L^T)^-1 B for B n x q.  2 n^2 q flops. Threads share the columns.
void cholesky_solve(MatrixView<const double> factor, MatrixView<double> b, int threads);
void cholesky_solve(MatrixView<const float> factor, MatrixView<float> b, int threads);

// Cholesky of one small tile on the calling thread; the building block of the tiled and banded ones.
CholeskyResult cholesky_tile(MatrixView<double> a);
CholeskyResult cholesky_tile(MatrixView<float> a);

}  // namespace headlens
