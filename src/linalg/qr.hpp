// Householder QR of a tall matrix: A (n, p) = Q L^T with L lower triangular. L is the Cholesky factor of A^T
// A, found without forming A^T A: singular values of A are kept to eps |A|, where a Gram matrix keeps them to
// sqrt(eps) |A|.  2 n p^2 flops on the calling thread, by LAPACK.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

class TallQr {
 public:
  explicit TallQr(Matrix<double> a);  // rows >= columns

  Matrix<double> factor() const;  // L (p, p); the diagonal may have any sign
  // b <- Q^T b: its first p rows are the coordinates of b in the range of A, the others what lies outside.
  void rotate(MatrixView<double> b) const;

 private:
  Matrix<double> a_;
  std::vector<double> scales_;
};

}  // namespace headlens
