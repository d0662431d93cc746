// A = U diag(s) V^T of a matrix (n, p), with r = min(n, p) singular values, falling. LAPACK's dgesdd on the
// calling thread; singular values are good to eps |A|.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

struct Svd {
  bool ok = true;              // false: not finite, or no convergence
  Matrix<double> left;         // U (n, r)
  std::vector<double> values;  // s (r)
  Matrix<double> right;        // V^T (r, p)
};
[[nodiscard]] Svd svd(MatrixView<const double> a);

}  // namespace headlens
