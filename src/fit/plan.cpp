#include "fit/plan.hpp"

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "features/heads.hpp"
#include "fit/penalties.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens::training {
namespace {

using backend::Method;
using backend::Side;

constexpr double kDoubleBytes = 8;
constexpr double kFloatFrom = 1024;  // unknowns; smaller systems are solved in double outright

// What an algorithm holds beside the back end, per output: vectors of n and of p numbers at its peak.
double vector_items(Method method, double n, double p) {
  switch (method) {
    case Method::newton:
    case Method::newton_on_features:
      return 20 * n + 4 * p;  // works with functions on the examples
    case Method::norm_ball:
      return 14 * n + 8 * p;
    default:
      return 4 * n + 4 * p;
  }
}

// A model with finitely many heads.
class HeadPlan {
 public:
  HeadPlan(const Problem& problem, const backend::Context& context)
      : problem_(problem), context_(context), budget_(context.execution, context.machine.free_bytes()) {
    const FeatureOptions& f = problem.options.features;
    n_ = static_cast<double>(problem.count());
    p_ = context.machine.columns(f, problem.sets.dim(), problem.keys());
    require(p_ < static_cast<double>(Index{1} << 60) / n_, option("heads"), ": ", f.heads,
            " given: the feature matrix has more entries than can be counted");
    const double item = f.precision == Precision::f32 ? 4 : 8;
    // Of the rank with the most: all ranks must come to the same plan.
    features_ = std::ceil(n_ / context.ranks.size()) * p_ * item;
    data_ = -context.ranks.least(-problem.sets.host_bytes());
    heads_ = 2 * item * head_items(f, problem.sets.dim(), problem.keys());  // as stored, and as packed
  }

  Plan make() const {
    budget_.require(data_ + heads_, join("the model with ", problem_.options.features.heads, " heads"));
    Plan plan = problem_.is_squared_ridge() ? ridge() : convex();
    const bool repeated =
        plan.route.method == Method::newton_on_features || plan.route.method == Method::norm_ball;
    Plan held = plan;
    held.hold_features = true;
    predict(held);
    if ((features_ <= context_.machine.held_features_bytes() || repeated) && budget_.fits(held.exact_bytes))
      return held;
    if (repeated)
      context_.execution.note(
          "the features do not fit in memory and are recomputed at every step: this will be slow");
    return plan;
  }

 private:
  void predict(Plan& plan) const { predict_bytes(problem_, plan, p_, context_); }

  Plan iterative() const {
    Plan plan{.route = {Method::conjugate_gradients, n_ <= p_ ? Side::dual : Side::primal, Precision::f64}};
    // More rank, fewer iterations; 512 columns of three arrays are small beside the data.
    plan.sketch = static_cast<Index>(std::clamp(std::min(n_, p_) / 8, 1.0, 512.0));
    predict(plan);
    budget_.require(plan.peak_bytes, "conjugate gradients on this problem, the smallest of the solvers,");
    return plan;
  }

  Plan ridge() const {
    const Solver wanted = problem_.options.solver;
    if (wanted == Solver::iterative) return iterative();
    const bool dual = wanted == Solver::automatic ? n_ <= p_ : wanted == Solver::dual;
    Plan plan{.route =
                  direct_route(problem_, dual ? Side::dual : Side::primal, dual ? n_ : p_, context_.machine)};
    predict(plan);
    const bool can_iterate =
        wanted == Solver::automatic && (!problem_.options.ridge || *problem_.options.ridge > 0);
    if (budget_.fits(plan.exact_bytes) || !can_iterate) {
      budget_.require(plan.exact_bytes, join("the ", name(solver_of(plan.route)), " solver"));
      return plan;
    }
    const auto text = format_bytes(static_cast<std::uint64_t>(plan.exact_bytes));
    plan = iterative();
    context_.execution.note(join("the Gram matrix would need ", text, " of ",
                                 format_bytes(budget_.limit_bytes()),
                                 ": using conjugate gradients, which recompute the features at every step"));
    return plan;
  }

  // Other losses apply K = Phi Phi^T many times: from the Gram matrix if n <= p and it fits, else from Phi.
  Plan convex() const {
    Plan plan{.route = {problem_.options.norm_ball ? Method::norm_ball : Method::newton_on_features}};
    predict(plan);
    Plan with_gram{.route = {Method::newton}};
    predict(with_gram);
    if (!problem_.options.norm_ball && n_ <= p_ && budget_.fits(with_gram.peak_bytes)) return with_gram;
    budget_.require(plan.peak_bytes, "this problem");
    return plan;
  }

  const Problem& problem_;
  const backend::Context& context_;
  MemoryBudget budget_;
  double n_, p_;                    // p with padding
  double features_, data_, heads_;  // bytes
};

}  // namespace

Solver solver_of(const backend::Route& route) {
  switch (route.method) {
    case Method::conjugate_gradients:
    case Method::newton_on_features:
    case Method::norm_ball:
      return Solver::iterative;
    default:
      return route.side == Side::dual ? Solver::dual : Solver::primal;
  }
}

backend::Route direct_route(const Problem& problem, Side side, double unknowns,
                            const backend::Backend& machine) {
  const std::optional<double> ridge = problem.options.ridge;
  if (ridge && *ridge == 0) return {Method::minimum_norm, side, Precision::f64};
  return {ridge ? Method::cholesky : Method::path, side,
          unknowns >= kFloatFrom && machine.has_few_digits(side) ? Precision::f32 : Precision::f64};
}

double peak_bytes(const Problem& problem, const Plan& plan, double columns, const backend::Context& context) {
  const FeatureOptions& features = problem.options.features;
  const backend::Shape shape{
      .sets = problem.sets,
      .features = features,
      .outputs = problem.outputs,
      .centres = plan.centres,
      .sketch = plan.sketch,
      .penalties = std::ssize(ridge_grid(1.0, problem.count(), features.precision)),
      .left_out = std::min(problem.count(), kLeftOut),
      .hold = plan.hold_features,
      .block_sets = problem.options.block_sets,
  };
  const double n = static_cast<double>(problem.count()), q = static_cast<double>(problem.outputs);
  const double vectors = kDoubleBytes * q * vector_items(plan.route.method, n, columns);
  return context.machine.bytes(plan.route, shape, context.threads) + vectors;
}

void predict_bytes(const Problem& problem, Plan& plan, double columns, const backend::Context& context) {
  plan.peak_bytes = plan.exact_bytes = peak_bytes(problem, plan, columns, context);
  if (plan.route.precision == Precision::f64) return;
  Plan exact = plan;
  exact.route.precision = Precision::f64;
  plan.exact_bytes = std::max(plan.peak_bytes, peak_bytes(problem, exact, columns, context));
}

Plan make_plan(const Problem& problem, const backend::Context& context) {
  if (problem.options.features.infinite()) return plan_infinite_heads(problem, context);
  return HeadPlan(problem, context).make();
}

}  // namespace headlens::training
