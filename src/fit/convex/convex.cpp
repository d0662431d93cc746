#include "fit/convex/convex.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "fit/convex/loss.hpp"
#include "fit/convex/newton.hpp"
#include "fit/convex/norm_ball.hpp"
#include "fit/penalties.hpp"

namespace headlens::training {
namespace {

// The squared loss is reported as a mean over outputs too, as everywhere else.
double mean_loss(const Problem& problem, double loss) {
  return problem.options.loss == Loss::squared ? loss / static_cast<double>(problem.outputs) : loss;
}

LossFunction loss_of(const Problem& problem) {
  if (problem.classes.empty())
    return LossFunction::regression(problem.options.loss, problem.targets, problem.options.huber_delta);
  std::vector<Index> labels;
  for (Index i = 0; i < problem.count(); ++i) labels.push_back(static_cast<Index>(problem.targets(i, 0)));
  return LossFunction::classification(problem.options.loss, labels,
                                      static_cast<Index>(problem.classes.size()));
}

// A random fold for every set; classes are dealt out evenly.
std::vector<int> deal_folds(const Problem& problem, int folds) {
  const Index n = problem.count();
  std::vector<Index> order(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
  Stream stream(problem.options.features.seed, "folds");
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  if (!problem.classes.empty())
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return problem.targets(a, 0) < problem.targets(b, 0); });
  std::vector<int> fold(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    fold[static_cast<std::size_t>(order[i])] = static_cast<int>(i) % folds;
  return fold;
}

// Decades of the mean diagonal of K: beyond them the loss is flat on one side and the fit is an interpolation
// on the other.
std::vector<RidgeTrial> trial_grid(double mean_diagonal) {
  std::vector<RidgeTrial> trials;
  for (int decade = 1; decade >= -6; --decade)
    trials.push_back({std::max(mean_diagonal, 1e-300) * std::pow(10.0, decade), 0.0});
  return trials;
}

double cross_validate(const Problem& problem, const LossFunction& loss, const BlockOperator& kernel,
                      double mean_diagonal, FitReport& report, const Execution& execution) {
  const int folds = static_cast<int>(std::min<Index>(5, problem.count()));
  report.trials = trial_grid(mean_diagonal);
  if (folds < 2) return report.trials.front().ridge;
  const std::vector<int> fold_of = deal_folds(problem, folds);
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<double> train(fold_of.size()), held(fold_of.size());
    for (std::size_t i = 0; i < fold_of.size(); ++i) (fold_of[i] == fold ? held : train)[i] = 1.0;
    const LossFunction inside = loss.weighted(train), outside = loss.weighted(held);
    DualPoint start;
    for (RidgeTrial& trial : report.trials) {
      NewtonOptions options{.ridge = trial.ridge, .intercept = problem.options.intercept, .tolerance = 1e-4};
      NewtonSolution found =
          minimise_newton(inside, kernel, options, execution, start.dual.rows() ? &start : nullptr);
      trial.error += outside.sharp_value(found.scores) / folds;
      report.iterations += found.iterations;
      start = std::move(found.point);
    }
  }
  return report.trials[static_cast<std::size_t>(best_trial(report.trials))].ridge;
}

void assign(const Matrix<double>& from, MatrixView<double> to) {
  std::copy_n(from.data(), from.rows() * from.cols(), to.data);
}

void solve_penalised(backend::Design& design, const Problem& problem, const Plan& plan, Solution& solution,
                     const Execution& execution) {
  FitReport& report = solution.report;
  const LossFunction loss = loss_of(problem);
  const auto gram = plan.route.method == backend::Method::newton ? design.gram({}) : nullptr;
  const BlockOperator kernel = [&](MatrixView<const double> in, MatrixView<double> out) {
    if (gram) return gram->multiply(in, out);
    assign(design.outer_product(in, "solve"), out);
  };
  report.ridge_rule = "given";
  if (!problem.options.ridge) {
    const double scale =
        gram ? gram->trace() / static_cast<double>(problem.count()) : design.mean_square_row();
    report.ridge = cross_validate(problem, loss, kernel, scale, report, execution);
    report.ridge_rule = problem.count() < 5 ? "leave-one-out folds" : "5-fold";
  }
  NewtonSolution found = minimise_newton(
      loss, kernel, {.ridge = report.ridge, .intercept = problem.options.intercept}, execution);
  report.method = problem.options.loss == Loss::hinge ? "interior point" : "Newton with conjugate gradients";
  report.status = found.status;
  report.train_loss = mean_loss(problem, found.loss);
  report.residual = found.gap;
  report.iterations += found.iterations;
  solution.offset = std::move(found.point.intercept);
  solution.values = design.adjoint(found.point.dual, "values");
}

void solve_over_ball(backend::Design& design, const Problem& problem, Solution& solution,
                     const Execution& execution) {
  FitReport& report = solution.report;
  const GroupedDesign grouped{
      [&](MatrixView<const double> in, MatrixView<double> out) { assign(design.forward(in, "solve"), out); },
      [&](MatrixView<const double> in, MatrixView<double> out) { assign(design.adjoint(in, "solve"), out); },
      design.head_of_column()};
  NormBallSolution found = minimise_over_ball(
      loss_of(problem), grouped,
      {.ball = *problem.options.norm_ball, .ridge = report.ridge, .intercept = problem.options.intercept},
      execution);
  report.ridge_rule = problem.options.ridge ? "given" : "none: the norm ball takes its place";
  report.method = "accelerated projected gradients";
  report.status = found.status;
  report.train_loss = mean_loss(problem, found.loss);
  report.residual = found.gap;
  report.iterations = found.iterations;
  solution.offset = std::move(found.intercept);
  solution.values = std::move(found.values);
}

}  // namespace

Solution solve_convex(backend::Design& design, const Problem& problem, const Plan& plan,
                      const backend::Context& context) {
  Solution solution;
  solution.report.solver = solver_of(plan.route);
  solution.report.ridge = problem.options.ridge.value_or(0);
  const bool has_gram = plan.route.method == backend::Method::newton;
  if (!has_gram) design.mean_square_row();  // refuses features whose squares overflow
  if (problem.options.norm_ball)
    solve_over_ball(design, problem, solution, context.execution);
  else
    solve_penalised(design, problem, plan, solution, context.execution);
  return solution;
}

}  // namespace headlens::training
