// Ridge regression on the centred features: minimise (1/n) |Phi V - Y|^2 + ridge |V|^2.
//
//   dual     V = Phi^T (Phi Phi^T + n ridge)^-1 Y     n unknowns
//   primal   V = (Phi^T Phi + n ridge)^-1 Phi^T Y     p unknowns
#pragma once

#include "fit/design_matrix.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"

namespace headlens {

template <class T>
Solution solve_ridge(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     const Execution& execution);

// Phi Phi^T, lower triangle.
template <class T>
Matrix<double> dual_gram(DesignMatrix<T>& design);

struct PrimalSystem {
  Matrix<double> gram;  // Phi^T Phi, lower triangle
  Matrix<double> rhs;   // Phi^T Y
};
template <class T>
PrimalSystem primal_system(DesignMatrix<T>& design, MatrixView<const double> y);

double trace(MatrixView<const double> matrix);

}  // namespace headlens
