#include "fit/ridge/ridge.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fit/ridge/direct.hpp"
#include "fit/ridge/iterative.hpp"
#include "fit/ridge/refined.hpp"
#include "fit/ridge/targets.hpp"

namespace headlens::training {
namespace {

double norm(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

// Fills in the training error and |Phi^T (Phi V - Y) / n + ridge V| / |Phi^T Y / n|, in one pass.
void measure(backend::Design& design, MatrixView<const double> y, Solution& solution) {
  const auto n = static_cast<double>(y.rows);
  auto [squares, gradient, product] = design.check(solution.values, y);
  solution.report.train_loss = squares / (n * static_cast<double>(y.cols));
  for (Index j = 0; j < gradient.rows(); ++j)
    for (Index c = 0; c < y.cols; ++c) {
      gradient(j, c) = gradient(j, c) / n + solution.report.ridge * solution.values(j, c);
      product(j, c) /= n;
    }
  const double error = norm(gradient);
  double scale = norm(product);
  // Where Phi^T Y is itself rounding (no feature varies with Y), errors count beside |Phi| |Y| instead.
  if (error > residual_limit(design.precision()) * scale)
    scale = std::max(scale, 1e-6 * std::sqrt(design.mean_square_row() / n) * norm(y));
  solution.report.residual = scale > 0 ? error / scale : 0.0;
}

void solve_directly(backend::Design& design, const Problem& problem, const Plan& plan,
                    MatrixView<const double> y, Solution& solution) {
  const bool dual = plan.route.side == backend::Side::dual;
  const auto gram =
      design.gram({.side = plan.route.side, .targets = y, .intercept = problem.options.intercept});
  std::optional<Matrix<double>> found =
      solve_gram(*gram, plan.route.method, problem, dual ? "dual " : "primal ", solution.report);
  if (!found) {
    solution.report.status = FitStatus::not_positive_definite;
    return;
  }
  solution.values = dual ? design.adjoint(*found, "values") : std::move(*found);
}

void solve(backend::Design& design, const Problem& problem, const Plan& plan, MatrixView<const double> y,
           Solution& solution, const backend::Context& context) {
  if (plan.route.method == backend::Method::conjugate_gradients)
    return solve_iterative(design, problem, plan, y, solution, context);
  if (plan.route.precision == Precision::f32) {
    if (solve_refined(design, problem, plan, y, solution, context)) return;
    solution.fell_back = true;
  }
  solve_directly(design, problem, plan, y, solution);
}

}  // namespace

Solution solve_ridge(backend::Design& design, const Problem& problem, const Plan& plan,
                     const backend::Context& context) {
  Solution solution;
  const Matrix<double> y = centre_targets(problem, solution.offset);
  solution.report.solver = solver_of(plan.route);
  solution.report.ridge = problem.options.ridge.value_or(0);
  solution.values = Matrix<double>::zeros(design.columns(), problem.outputs);
  if (are_constant(y, problem, solution.report)) {
    design.means();
    return solution;
  }
  solve(design, problem, plan, y, solution, context);
  if (solution.report.status == FitStatus::not_positive_definite) return solution;
  measure(design, y, solution);
  if (solution.report.residual > residual_limit(design.precision()))
    solution.report.status = FitStatus::stalled;
  return solution;
}

}  // namespace headlens::training
