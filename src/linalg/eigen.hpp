// All eigenvalues and eigenvectors of a matrix. Symmetric: A = sum_k values[k] v_k v_k^T.
//
// LAPACK's dsyevd on one thread; half of its reduction to tridiagonal form runs at the speed of memory. For
// matrices up to a few thousand (measured: 1.1 s at n = 2000, 11 s at n = 4000). Where one matrix serves many
// shifts, see band.hpp.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

enum class EigenStatus { ok, not_finite, not_converged };

struct [[nodiscard]] SymmetricEigen {
  EigenStatus status = EigenStatus::ok;
  std::vector<double> values;  // ascending; empty unless ok
  Matrix<double> vectors;      // row k is the unit eigenvector of values[k]

  bool ok() const { return status == EigenStatus::ok; }
};

// Reads the lower triangle of a.
SymmetricEigen symmetric_eigen(MatrixView<const double> a);

// A v_k = values[k] v_k of a small general matrix. A pair of complex eigenvalues shows as two equal values;
// its two rows are then the real and the imaginary part of the eigenvector.
struct [[nodiscard]] GeneralEigen {
  EigenStatus status = EigenStatus::ok;
  std::vector<double> values;  // real parts, in no order; empty unless ok
  Matrix<double> vectors;      // row k is the unit eigenvector of values[k]

  bool ok() const { return status == EigenStatus::ok; }
};
GeneralEigen general_eigen(MatrixView<const double> a);

}  // namespace headlens
