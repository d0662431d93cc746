#include "fit/ridge/refined.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/random.hpp"
#include "fit/penalties.hpp"
#include "fit/ridge/path_search.hpp"
#include "fit/ridge/ridge_system.hpp"
#include "headlens/error.hpp"

namespace headlens::training {
namespace {

constexpr int kRefinements = 20;  // each should win a digit or more

// Of the normal equations: what rounding of the features leaves.
constexpr double refined_residual(Precision precision) { return precision == Precision::f32 ? 1e-7 : 1e-12; }

// Coefficients in double from an inverse of few digits; false if the inverse does not carry that far.
bool refine(backend::Design& design, backend::Side side, MatrixView<const double> y, double ridge,
            backend::Factor* inverse, Solution& solution, const Execution& execution) {
  if (!inverse) return false;
  const double goal = refined_residual(design.precision());
  const RidgeSystem system(design, y, side);
  Matrix<double> unknowns = Matrix<double>::zeros(system.size(), y.cols);
  const CgResult cg = system.solve(
      ridge * static_cast<double>(y.rows),
      [&](MatrixView<const double> in, MatrixView<double> out) { inverse->solve(in, out); },
      {goal, kRefinements}, unknowns, execution);
  // Slow refinement means that float has lost the shift, and with it the errors that were compared.
  if (!cg.ok() && cg.relative_residual > 1e3 * goal) return false;
  solution.report.ridge = ridge;
  solution.report.iterations = cg.iterations;
  solution.values = system.values(std::move(unknowns));
  return true;
}

bool solve_given(backend::Design& design, double ridge, backend::Side side, MatrixView<const double> y,
                 Solution& solution, const Execution& execution) {
  const auto gram = design.gram({.side = side, .precision = Precision::f32});
  const auto inverse = gram->factor(static_cast<double>(y.rows) * ridge);
  if (!refine(design, side, y, ridge, inverse.get(), solution, execution)) return false;
  solution.report.ridge_rule = "given";
  solution.report.method = "Cholesky";
  return true;
}

bool solve_path(backend::Design& design, const Problem& problem, backend::Side side,
                MatrixView<const double> y, Solution& solution, const Execution& execution) {
  const FitOptions& options = problem.options;
  const auto gram = design.gram(
      {side, Precision::f32, y, draw_examples(y.rows, kLeftOut, options.features.seed), options.intercept});
  const double mean_diagonal = gram->trace() / static_cast<double>(y.rows);
  const auto path = gram->shift_path();
  if (!path) return false;
  const std::optional<FloatChoice> choice =
      choose_in_float(*path, ridge_grid(mean_diagonal, y.rows, options.features.precision), y.rows);
  if (!choice) return false;
  const auto inverse = path->factor(static_cast<double>(y.rows) * choice->ridge);
  if (!refine(design, side, y, choice->ridge, inverse.get(), solution, execution)) return false;
  solution.report.trials = choice->trials;
  solution.report.ridge_rule =
      (y.rows > kLeftOut ? join("leave-one-out, from ", kLeftOut, " examples") : "leave-one-out") +
      search_words(*path);
  solution.report.method = gram->path_method();
  return true;
}

}  // namespace

std::optional<FloatChoice> choose_in_float(backend::ShiftPath& path, const std::vector<double>& ridges,
                                           Index count) {
  PathTrials found = try_penalties(path, ridges, count);
  if (found.trials.size() < 2) return std::nullopt;
  const auto best = static_cast<std::size_t>(best_trial(found.trials));
  const bool at_the_edge = best + 1 == found.trials.size() && found.cut;
  const RidgeTrial chosen = found.trials[best];
  if (at_the_edge || !std::isfinite(chosen.error)) return std::nullopt;
  return FloatChoice{std::move(found.trials), chosen.ridge};
}

std::vector<Index> draw_examples(Index count, Index most, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  if (count <= most) return order;
  Stream stream(seed, "left out");
  for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i)
    std::swap(order[i], order[i + stream.below(order.size() - i)]);
  order.resize(static_cast<std::size_t>(most));
  std::sort(order.begin(), order.end());
  return order;
}

bool solve_refined(backend::Design& design, const Problem& problem, const Plan& plan,
                   MatrixView<const double> y, Solution& solution, const backend::Context& context) {
  const backend::Side side = plan.route.side;
  const std::string prefix = side == backend::Side::dual ? "dual " : "primal ";
  const bool given = plan.route.method == backend::Method::cholesky;
  if (given ? !solve_given(design, *problem.options.ridge, side, y, solution, context.execution)
            : !solve_path(design, problem, side, y, solution, context.execution))
    return false;
  solution.report.method = prefix + solution.report.method + " in single precision, refined";
  return true;
}

}  // namespace headlens::training
