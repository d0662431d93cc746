// Ridge regression on the centred features: minimise (1/n) |Phi V - Y|^2 + ridge |V|^2.
//
//   dual     V = Phi^T (Phi Phi^T + n ridge)^-1 Y     n unknowns
//   primal   V = (Phi^T Phi + n ridge)^-1 Phi^T Y     p unknowns
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fit/design_matrix.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"
#include "linalg/block_operator.hpp"

namespace headlens {

// P^-1 for conjugate gradients on the primal system with this shift.
using PreconditionerAt = std::function<BlockOperator(double shift)>;

// `preconditioner` replaces the randomised sketch of the iterative solver, which then takes the primal side.
template <class T>
Solution solve_ridge(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     const Execution& execution, const PreconditionerAt& preconditioner = {});

// Phi Phi^T, lower triangle.
template <class T>
Matrix<double> dual_gram(DesignMatrix<T>& design);

struct PrimalSystem {
  Matrix<double> gram;  // Phi^T Phi, lower triangle
  Matrix<double> rhs;   // Phi^T Y
};
template <class T>
PrimalSystem primal_system(DesignMatrix<T>& design, MatrixView<const double> y);

struct Coefficients {
  FitStatus status = FitStatus::solved;
  Matrix<double> values;  // alpha (n, q) in the dual, V (p, q) in the primal
};
struct RidgePath;
// (gram + n ridge)^-1 rhs with the ridge given, zero (eigenvalues below size * epsilon * largest count as
// zero) or chosen by `path`. Fills in the report; its method begins with `side`.
Coefficients solve_gram(Matrix<double> gram, MatrixView<const double> rhs, const Problem& problem,
                        double epsilon, const std::string& side, int threads, FitReport& report,
                        const std::function<RidgePath(Matrix<double>)>& path);

// Y less its mean, which becomes the offset. Exactly zero where a column is constant.
Matrix<double> centre_targets(const Problem& problem, std::vector<double>& offset);
// Every ridge gives V = 0: nothing to solve, nothing to choose. Then says so in the report.
bool are_constant(MatrixView<const double> centred_targets, const Problem& problem, FitReport& report);

// Beyond this the normal equations are not solved in any useful sense: the ridge is too small for the
// precision.
constexpr double residual_limit(std::size_t item_bytes) { return item_bytes == 4 ? 1e-2 : 1e-6; }

double trace(MatrixView<const double> matrix);

}  // namespace headlens
