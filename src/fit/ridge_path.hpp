// All penalties from one factorisation, and the exact leave-one-out error of each.
//
// With A = K + shift (dual) or G + shift (primal), shift = n ridge, and H the hat matrix, intercept included:
//
//   dual     y_i - f_{-i}(x_i) = alpha_i / ([A^-1]_ii - 1/(n (c + shift)))          alpha = A^-1 y
//   primal   y_i - f_{-i}(x_i) = (y_i - f_i) / (1 - 1/n - phi_i^T A^-1 phi_i)
//
// The total penalty n ridge stays fixed when an example is left out. In the dual, centring leaves K with the
// null vector 1; adding c 1 1^T / n, c the mean diagonal, gives it an ordinary eigenvalue instead, which
// changes nothing for centred y and avoids a cancellation of order 1/shift. Without an intercept the 1/n
// terms are absent.
//
// K or G is reduced once to band form; then a penalty costs O(size * band) an example.
#pragma once

#include "fit/ridge.hpp"

namespace headlens {

struct RidgePath {
  FitStatus status = FitStatus::solved;
  double ridge = 0;
  Matrix<double> coefficients;     // alpha (n, q) or V (p, q) at the best penalty
  std::vector<RidgeTrial> trials;  // from the largest penalty down
};

// Where the grid ends: the smallest shift as a share of the mean diagonal.
constexpr double smallest_share(Precision precision) { return precision == Precision::f32 ? 1e-5 : 1e-9; }

// Half decades from 1e3 * mean_diagonal down to where rounding of the features drowns the shift.
std::vector<double> ridge_grid(double mean_diagonal, Index count, Precision precision);

// The largest penalty among those with the smallest error; errors that are not finite do not count.
Index best_trial(const std::vector<RidgeTrial>& trials);

RidgePath dual_path(Matrix<double> gram, MatrixView<const double> y, const FitOptions& options, int threads,
                    const Execution& execution);

template <class T>
RidgePath primal_path(DesignMatrix<T>& design, PrimalSystem system, MatrixView<const double> y,
                      const FitOptions& options, const Execution& execution);

}  // namespace headlens
