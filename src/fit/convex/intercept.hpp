// The best intercept for given scores: b = argmin_b L(F + 1 b^T), to rounding.
//
// Eliminating b exactly at every step makes both solvers minimise a function of V alone, h(V) = min_b, which
// is as smooth and as convex as the loss, and makes their optimality gaps certificates. Uncoupled scores: q
// monotone root searches inside brackets that follow from the data. Multinomial: Newton in q dimensions, O(n
// q^2) per step.
//
// A class without examples would send its logistic intercept to infinity. Class shares are therefore clamped
// to e^-30, i.e. L gains the linear term <pi - clamped pi, b> of size 1e-13 |b|; then |b| stays below about
// 30 + max |F|, and `capped` says so.
#pragma once

#include <vector>

#include "fit/convex/loss.hpp"

namespace headlens::training {

struct Intercept {
  std::vector<double> values;
  bool capped = false;  // a class has no examples
};

[[nodiscard]] Intercept minimise_intercept(const LossFunction& loss, MatrixView<const double> scores,
                                           const std::vector<double>& start);

// scores + 1 b^T
void add_intercept(MatrixView<const double> scores, const std::vector<double>& intercept,
                   MatrixView<double> out);

// S x = rhs for the q x q second derivative S along 1 b^T. S may be singular (the multinomial does not see b
// + c 1; a column without curvature): diagonal scaling and a shift of 1e-12 give a solution within the range
// of S, S^-1 is never overestimated, and a column of zeros gets 0.
class InterceptSystem {
 public:
  explicit InterceptSystem(Matrix<double> second_derivative);
  [[nodiscard]] std::vector<double> solve(std::vector<double> rhs) const;

 private:
  std::vector<double> scale_;  // 1 / sqrt(diagonal), 0 for a column of zeros
  Matrix<double> factor_;      // Cholesky, lower
};

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace headlens::training
