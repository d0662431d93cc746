#include "fit/ridge/iterative.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/random.hpp"
#include "fit/penalties.hpp"
#include "fit/ridge/ridge_system.hpp"
#include "linalg/nystrom.hpp"

namespace headlens::training {
namespace {

constexpr double kTolerance = 1e-11;      // of the fit
constexpr double kTrialTolerance = 1e-5;  // of the fits that only choose the penalty
constexpr int kMaxIterations = 2000;

// P^-1 for the system with this shift.
using PreconditionerAt = std::function<BlockOperator(double shift)>;

// 1 for training, 0 for every tenth set of a random order.
std::vector<double> hold_out_tenth(Index count, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  Stream stream(seed, "hold-out");
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  std::vector<double> weights(order.size(), 1.0);
  for (std::size_t i = 0; i < std::max<std::size_t>(1, order.size() / 10); ++i)
    weights[static_cast<std::size_t>(order[i])] = 0.0;
  return weights;
}

double held_out_error(MatrixView<const double> fitted, MatrixView<const double> y,
                      const std::vector<double>& weights) {
  double squares = 0, count = 0;
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; weights[static_cast<std::size_t>(i)] == 0 && c < y.cols; ++c, ++count)
      squares += std::pow(fitted(i, c) - y(i, c), 2);
  return squares / count;
}

// The design's own, or a randomised sketch of the system.
PreconditionerAt make_preconditioner(backend::Design& design, const RidgeSystem& system, const Plan& plan,
                                     std::uint64_t seed, int threads) {
  if (plan.sketch == 0)
    return [&design](double shift) {
      const std::shared_ptr<backend::Factor> factor = design.preconditioner(shift);
      return [factor](MatrixView<const double> in, MatrixView<double> out) { factor->solve(in, out); };
    };
  const auto sketch = std::make_shared<NystromResult>(
      build_nystrom([&](MatrixView<const double> in, MatrixView<double> out) { system.apply(0, in, out); },
                    system.size(), plan.sketch, seed, threads));
  return [sketch, threads](double shift) {
    return [sketch, threads, shift](MatrixView<const double> in, MatrixView<double> out) {
      sketch->preconditioner.apply(shift, in, out, threads);
    };
  };
}

double choose_ridge(backend::Design& design, const Problem& problem, const PreconditionerAt& preconditioner,
                    backend::Side side, MatrixView<const double> y, FitReport& report,
                    const Execution& execution) {
  const Index n = problem.count();
  const std::vector<double> weights = hold_out_tenth(n, problem.options.features.seed);
  const RidgeSystem system(design, y, side, weights);
  Matrix<double> unknowns = Matrix<double>::zeros(system.size(), y.cols);
  int rises = 0;
  for (const double ridge : ridge_grid(design.mean_square_row(), n, problem.options.features.precision)) {
    const double shift = ridge * static_cast<double>(n);
    const CgResult cg =
        system.solve(shift, preconditioner(shift), {kTrialTolerance, kMaxIterations}, unknowns, execution);
    report.iterations += cg.iterations;
    const double error = held_out_error(system.fitted(unknowns), y, weights);
    rises = !report.trials.empty() && error > report.trials.back().error ? rises + 1 : 0;
    report.trials.push_back({ridge, error});
    if (rises == 3 || !cg.ok()) break;
  }
  return report.trials[static_cast<std::size_t>(best_trial(report.trials))].ridge;
}

}  // namespace

void solve_iterative(backend::Design& design, const Problem& problem, const Plan& plan,
                     MatrixView<const double> y, Solution& solution, const backend::Context& context) {
  FitReport& report = solution.report;
  const backend::Side side = plan.route.side;
  const RidgeSystem system(design, y, side);
  report.method = system.dual() ? "dual conjugate gradients" : "primal conjugate gradients";
  report.ridge_rule = "given";
  const PreconditionerAt preconditioner =
      make_preconditioner(design, system, plan, problem.options.features.seed, context.threads);
  if (!problem.options.ridge) {
    report.ridge = choose_ridge(design, problem, preconditioner, side, y, report, context.execution);
    report.ridge_rule = "held-out tenth";
  }
  Matrix<double> unknowns = Matrix<double>::zeros(system.size(), y.cols);
  const double shift = report.ridge * static_cast<double>(problem.count());
  const CgResult cg =
      system.solve(shift, preconditioner(shift), {kTolerance, kMaxIterations}, unknowns, context.execution);
  report.iterations += cg.iterations;
  report.status = cg.ok() ? FitStatus::solved : FitStatus::stalled;
  solution.values = system.values(std::move(unknowns));
}

}  // namespace headlens::training
