// sets -> features -> solution -> model
#include <chrono>

#include "backend/backend.hpp"
#include "base/parallel.hpp"
#include "features/heads.hpp"
#include "fit/convex/convex.hpp"
#include "fit/infinite_heads.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"
#include "fit/ridge/ridge.hpp"
#include "fit/score_digits.hpp"
#include "fit/trained_model.hpp"

namespace headlens {
namespace training {
namespace {

Fit fit_heads(const Problem& problem, const Plan& plan, const backend::Context& context) {
  const FitOptions& options = problem.options;
  Array heads = draw_heads(options.features, problem.sets.dim(), problem.keys(), context.threads);
  const auto design = context.machine.make_design(
      {problem.sets, options.features, options.intercept, options.block_sets}, heads, context);
  if (plan.hold_features) design->hold();
  Solution solution = problem.is_squared_ridge() ? solve_ridge(*design, problem, plan, context)
                                                 : solve_convex(*design, problem, plan, context);
  solution.report.backend = context.machine.name();
  const Matrix<double> values = design->stored(solution.values);
  Fit fit{trained_model(problem, std::move(heads), values, design->stored_means(), solution),
          solution.report};
  fit.report.predicted_peak_bytes =
      static_cast<std::uint64_t>(solution.fell_back ? plan.exact_bytes : plan.peak_bytes);
  return fit;
}

// Scores that keep too few digits of what differs between tokens are said so.
void judge_digits(const Problem& problem, Fit& fit, const Execution& execution, comm::Communicator& ranks) {
  FitReport& report = fit.report;
  report.score_digits = ranks.least(score_digits(problem));
  if (report.score_digits >= enough_digits(problem)) return;
  execution.note(lost_digits_note(problem, report.score_digits));
  if (report.status == FitStatus::solved) report.status = FitStatus::digits_lost;
  fit.model.report["status"] = name(report.status);
}

// Only the Gram matrix of the primal side is a sum over sets that takes long.
void note_no_checkpoint(const Plan& plan, const backend::Context& context) {
  const backend::Method method = plan.route.method;
  const bool direct = method == backend::Method::cholesky || method == backend::Method::path ||
                      method == backend::Method::minimum_norm;
  if (context.execution.checkpoint.folder.empty() || (direct && plan.route.side == backend::Side::primal))
    return;
  context.execution.note(message(option("checkpoint"),
                                 ": nothing is kept, because this fit has no Gram matrix of the primal side; "
                                 "after a kill the fit begins again"));
}

}  // namespace
}  // namespace training

Fit fit(const LabelledSets& data, const FitOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  const auto start = std::chrono::steady_clock::now();
  const backend::Context context = backend::context_of(execution);
  const training::Problem problem = training::pose(data, options);
  const training::Plan plan = training::make_plan(problem, context);
  training::note_no_checkpoint(plan, context);
  Fit result = options.features.infinite() ? training::fit_infinite_heads(problem, plan, context)
                                           : training::fit_heads(problem, plan, context);
  training::judge_digits(problem, result, execution, context.ranks);
  result.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace headlens
