// sets -> features -> solution -> model
#include <chrono>

#include "base/parallel.hpp"
#include "features/heads.hpp"
#include "fit/convex.hpp"
#include "fit/design_matrix.hpp"
#include "fit/infinite_heads.hpp"
#include "fit/plan.hpp"
#include "fit/problem.hpp"
#include "fit/ridge.hpp"
#include "fit/score_digits.hpp"
#include "fit/trained_model.hpp"

namespace headlens {
namespace {

template <class T>
Fit run(const Problem& problem, const Plan& plan, const Execution& execution) {
  const FeatureOptions& features = problem.options.features;
  const Index dim = problem.sets.dim();
  Array heads = draw_heads(features, dim, problem.keys(), thread_count(execution));
  const auto map = FeatureMap<T>::make(features, dim, problem.keys(), heads);
  DesignMatrix<T> design(*map, problem.sets, problem.options.intercept, problem.options.block_sets,
                         execution);
  if (plan.cache_features) design.cache();
  const Solution solution = problem.is_squared_ridge() ? solve_ridge(design, problem, plan, execution)
                                                       : solve_convex(design, *map, problem, plan, execution);
  return {trained_model(problem, *map, std::move(heads), design.means(), solution), solution.report};
}

}  // namespace

Fit fit(const LabelledSets& data, const FitOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = pose(data, options);
  const Plan plan = make_plan(problem, execution);
  Fit result = options.features.infinite()                    ? fit_infinite_heads(problem, plan, execution)
               : options.features.precision == Precision::f32 ? run<float>(problem, plan, execution)
                                                              : run<double>(problem, plan, execution);
  FitReport& report = result.report;
  report.score_digits = score_digits(problem);
  if (report.score_digits < enough_digits(problem)) {
    execution.note(lost_digits_note(problem, report.score_digits));
    if (report.status == FitStatus::solved) report.status = FitStatus::digits_lost;
    result.model.report["status"] = name(report.status);
  }
  result.report.predicted_peak_bytes = static_cast<std::uint64_t>(plan.peak_bytes);
  result.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace headlens
