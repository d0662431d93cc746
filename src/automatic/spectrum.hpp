// Ridge regression with an intercept on one kernel: every penalty, with exact leave-one-out errors, from one
// eigendecomposition.
//
// The centred kernel matrix of the n training sets is U diag(s) U^T, where U has orthonormal columns that sum
// to zero. All sets kept: of the kernel matrix itself. m of them kept (Nystrom): of
// K_nm K_mm^+ K_mn, centred. With shrinkage t_k = p / (s_k + p) at penalty p, the residuals r and the
// leverage h are
//
//   r = U (t * U^T y) + what lies outside U       1 - h_i = 1 - 1/n - sum_k U_ik^2 (1 - t_k)
//
// and leaving set i out changes its residual to r_i / (1 - h_i), exactly. The centres of Nystrom stay.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::automatic {

struct Spectrum {
  Matrix<double> u;            // (n, r)
  std::vector<double> values;  // (r), s, above rounding
  Matrix<double> dual;        // (m, r): f = mean y + sum_j (K(x, z_j) - means_j) (dual diag(1/(s+p)) U^T y)_j
  std::vector<double> means;  // (m): of K(., z_j) over the training sets
  double mean_value = 0;      // trace of the centred kernel over n

  Index sets() const { return u.rows(); }
};

// K (n, n), all sets kept.
Spectrum decompose(Matrix<double> kernel);
// K_nm and K_mm.
Spectrum decompose(Matrix<double> kernel, Matrix<double> kept, int threads);

struct LeaveOneOut {
  double penalty = 0;
  double error = 0;              // mean over sets and outputs of the squared errors
  Matrix<double> predictions;    // (n, q) f_-i(x_i)
  std::vector<double> leverage;  // (n) 1 - h_i
};

// At one penalty. y: (n, q).
LeaveOneOut leave_one_out(const Spectrum& spectrum, MatrixView<const double> y, double penalty);
// The best of the penalties, which are multiples of the mean eigenvalue.
LeaveOneOut best_penalty(const Spectrum& spectrum, MatrixView<const double> y,
                         const std::vector<double>& multiples);

// (m, q) coefficients of the kept sets at this penalty; the intercept is mean y - means^T a.
Matrix<double> coefficients(const Spectrum& spectrum, MatrixView<const double> y, double penalty);

std::vector<double> column_means(MatrixView<const double> a);

}  // namespace headlens::automatic
