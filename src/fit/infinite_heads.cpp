#include "fit/infinite_heads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/random.hpp"
#include "features/kept_sets.hpp"
#include "fit/convex/convex.hpp"
#include "fit/ridge/direct.hpp"
#include "fit/ridge/ridge.hpp"
#include "fit/ridge/targets.hpp"
#include "fit/trained_model.hpp"
#include "headlens/error.hpp"

namespace headlens::training {
namespace {

// The coefficients of centred y sum to zero: what is left of the sum is rounding, and is removed.
void centre_columns(MatrixView<double> a) {
  for (Index c = 0; c < a.cols; ++c) {
    double mean = 0;
    for (Index i = 0; i < a.rows; ++i) mean += a(i, c) / static_cast<double>(a.rows);
    for (Index i = 0; i < a.rows; ++i) a(i, c) -= mean;
  }
}

// sum over columns of a^T K b
double inner(MatrixView<const double> a, MatrixView<const double> kb) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index c = 0; c < a.cols; ++c) sum += a(i, c) * kb(i, c);
  return sum;
}

// The training error, and the norm of the gradient Phi^T r, r = (K alpha - y) / n + ridge alpha, over that of
// Phi^T y / n.
void measure(const backend::Gram& kernel, MatrixView<const double> y, MatrixView<const double> alpha,
             FitReport& report) {
  const Index n = y.rows, q = y.cols;
  Matrix<double> both(n, 2 * q), products(n, 2 * q);
  Matrix<double> fitted(n, q);
  kernel.multiply(alpha, fitted);
  double squares = 0;
  for (Index i = 0; i < n; ++i)
    for (Index c = 0; c < q; ++c) {
      const double residual = fitted(i, c) - y(i, c);
      squares += residual * residual;
      both(i, c) = residual / static_cast<double>(n) + report.ridge * alpha(i, c);
      both(i, q + c) = y(i, c) / static_cast<double>(n);
    }
  report.train_loss = squares / static_cast<double>(n * q);
  kernel.multiply(both, products);
  const auto norm = [&](Index first) {
    return std::sqrt(
        std::max(0.0, inner(both.view().block(0, first, n, q), products.view().block(0, first, n, q))));
  };
  double scale = norm(q);
  // Where K y is itself rounding, errors count beside |K| |y| instead.
  if (norm(0) > residual_limit(Precision::f64) * scale)
    scale = std::max(scale, 1e-6 * std::sqrt(kernel.trace() * inner(y, y)) / static_cast<double>(n));
  report.residual = scale > 0 ? norm(0) / scale : 0.0;
  if (report.residual > residual_limit(Precision::f64)) report.status = FitStatus::stalled;
}

std::vector<Index> all_sets(Index count) {
  std::vector<Index> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), Index{0});
  return out;
}

// `count` different sets, in increasing order.
std::vector<Index> draw_centres(Index sets, Index count, std::uint64_t seed) {
  std::vector<Index> order = all_sets(sets);
  Stream stream(seed, "centres");
  for (Index i = 0; i < count; ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i) + stream.below(static_cast<std::uint64_t>(sets - i))]);
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

// alpha, and what it subtracts from the offset. Nothing if no ridge leaves the kernel positive definite.
std::optional<Matrix<double>> solve_kernel(const Problem& problem, const Plan& plan,
                                           MatrixView<const double> y, std::vector<double>& offset,
                                           FitReport& report, const backend::Context& context) {
  const FitOptions& options = problem.options;
  const auto [kernel, means] =
      context.machine.make_kernel_gram({problem.sets, options.features, options.intercept}, y, context);
  // Solving uses a Gram matrix up; the other copy measures the residual.
  std::optional<Matrix<double>> alpha =
      solve_gram(*kernel->copy(), plan.route.method, problem, "kernel ", report);
  if (!alpha) return std::nullopt;
  if (options.intercept) centre_columns(*alpha);
  measure(*kernel, y, *alpha, report);
  for (Index i = 0; i < alpha->rows(); ++i)
    for (Index c = 0; c < alpha->cols(); ++c)
      offset[static_cast<std::size_t>(c)] -= means[static_cast<std::size_t>(i)] * (*alpha)(i, c);
  return alpha;
}

Fit fit_exactly(const Problem& problem, const Plan& plan, const backend::Context& context) {
  FitReport report;
  report.solver = Solver::dual;
  report.backend = context.machine.name();
  report.ridge = problem.options.ridge.value_or(0);
  std::vector<double> offset;
  const Matrix<double> y = centre_targets(problem, offset);
  Matrix<double> alpha = Matrix<double>::zeros(problem.count(), problem.outputs);
  if (!are_constant(y, problem, report)) {
    std::optional<Matrix<double>> found = solve_kernel(problem, plan, y, offset, report, context);
    if (found)
      alpha = std::move(*found);
    else
      report.status = FitStatus::not_positive_definite;
  }
  report.predicted_peak_bytes = static_cast<std::uint64_t>(plan.peak_bytes);
  Support support = gather_support(problem.sets, all_sets(problem.count()), problem.options.features,
                                   Where::first, context.ranks);
  return {kernel_model(problem, std::move(support), alpha, offset, report), report};
}

Fit fit_centres(const Problem& problem, const Plan& plan, const backend::Context& context) {
  const FitOptions& options = problem.options;
  Support support =
      gather_support(problem.sets, draw_centres(problem.count(), plan.centres, options.features.seed),
                     options.features, Where::everywhere, context.ranks);
  const Sets centres = sets_of(support);
  const auto design = context.machine.make_centre_design(
      {problem.sets, options.features, options.intercept, options.block_sets}, centres, context);
  if (plan.hold_features) design->hold();
  Solution solution = problem.is_squared_ridge() ? solve_ridge(*design, problem, plan, context)
                                                 : solve_convex(*design, problem, plan, context);
  FitReport& report = solution.report;
  report.backend = context.machine.name();
  report.method = join("Nystrom with ", plan.centres, " centres, ", report.method);
  report.predicted_peak_bytes =
      static_cast<std::uint64_t>(solution.fell_back ? plan.exact_bytes : plan.peak_bytes);
  std::vector<double> offset = solution.offset;
  Matrix<double> values = Matrix<double>::zeros(plan.centres, problem.outputs);
  if (report.status != FitStatus::not_positive_definite) {
    for (Index j = 0; j < values.rows(); ++j)
      for (Index c = 0; c < values.cols(); ++c)
        offset[static_cast<std::size_t>(c)] -=
            design->means()[static_cast<std::size_t>(j)] * solution.values(j, c);
    values = design->stored(solution.values);
  }
  return {kernel_model(problem, std::move(support), values, offset, report), report};
}

}  // namespace

Fit fit_infinite_heads(const Problem& problem, const Plan& plan, const backend::Context& context) {
  return plan.centres == 0 ? fit_exactly(problem, plan, context) : fit_centres(problem, plan, context);
}

}  // namespace headlens::training
