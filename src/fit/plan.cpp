#include "fit/plan.hpp"

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "features/feature_map.hpp"
#include "features/rfa.hpp"
#include "fit/design_matrix.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

constexpr double kCacheLimit =
    1024.0 * 1024 * 1024;  // beyond this, computing features again costs little beside the Gram
constexpr double kDouble = 8;

struct Shape {
  double n, p, q;  // sets, columns of Phi (padded), score columns
  double item;     // bytes of a feature
  double data, heads, buffers;

  double base() const { return data + heads + buffers + 4 * (n + p) * q * kDouble; }
  double features() const { return n * p * item; }
  double smaller() const { return std::min(n, p); }
};

Shape shape_of(const Problem& problem) {
  const FeatureOptions& f = problem.options.features;
  const bool mlp = f.kind == ModelKind::mlp;
  const Index block = mlp ? 256 : (problem.sets.dim() + 1) * kLanes;
  const double per_block = mlp ? 256 : static_cast<double>(kLanes);
  Shape shape{};
  shape.n = static_cast<double>(problem.count());
  shape.p = std::ceil(static_cast<double>(f.heads) / per_block) * static_cast<double>(block);
  shape.q = static_cast<double>(problem.outputs);
  shape.item = f.precision == Precision::f32 ? 4 : 8;
  shape.data = static_cast<double>(problem.sets.query().bytes() + problem.sets.keys().bytes());
  // Once as stored, once packed for the feature map.
  shape.heads = 2 * feature_map_bytes(f, problem.sets.dim(), problem.keys());
  const double limit = static_cast<double>(Index{1} << 60);
  require(shape.p < limit / shape.n, option("heads"), ": ", f.heads,
          " given: the feature matrix has more entries than can be counted");
  shape.buffers = design_buffer_bytes(problem.count(), static_cast<Index>(shape.p), block,
                                      problem.options.block_sets, shape.item);
  return shape;
}

Plan plan_iterative(const Shape& shape, const MemoryBudget& budget) {
  Plan plan{.solver = Solver::iterative};
  // More rank, fewer iterations; 512 columns of three arrays are small beside the data.
  plan.sketch = static_cast<Index>(std::clamp(shape.smaller() / 8, 1.0, 512.0));
  plan.peak_bytes = shape.base() + 4.0 * static_cast<double>(plan.sketch) * shape.smaller() * kDouble;
  budget.require(plan.peak_bytes, "conjugate gradients on this problem, the smallest of the solvers,");
  return plan;
}

Plan plan_ridge(const Problem& problem, const Shape& shape, const MemoryBudget& budget,
                const Execution& execution) {
  const Solver wanted = problem.options.solver;
  if (wanted == Solver::iterative) return plan_iterative(shape, budget);
  Plan plan{.solver = wanted != Solver::automatic ? wanted
                      : shape.n <= shape.p        ? Solver::dual
                                                  : Solver::primal};
  plan.peak_bytes = shape.base() + direct_bytes(problem, plan.solver == Solver::dual ? shape.n : shape.p,
                                                plan.solver, thread_count(execution));
  const bool can_iterate =
      wanted == Solver::automatic && (!problem.options.ridge || *problem.options.ridge > 0);
  if (budget.fits(plan.peak_bytes) || !can_iterate) {
    budget.require(plan.peak_bytes, join("the ", name(plan.solver), " solver"));
    return plan;
  }
  const auto text = format_bytes(static_cast<std::uint64_t>(plan.peak_bytes));
  plan = plan_iterative(shape, budget);
  execution.note(join("the Gram matrix would need ", text, " of ", format_bytes(budget.limit_bytes()),
                      ": using conjugate gradients, which recompute the features at every step"));
  return plan;
}

// Other losses apply K = Phi Phi^T many times: from the Gram matrix if n <= p and it fits, else from Phi.
Plan plan_convex(const Problem& problem, const Shape& shape, const MemoryBudget& budget) {
  Plan plan{.solver = Solver::iterative};
  const double vectors = 20 * (shape.n + shape.p) * shape.q * kDouble;
  plan.peak_bytes = shape.base() + vectors;
  const double gram = shape.n * shape.n * kDouble;
  if (!problem.options.norm_ball && shape.n <= shape.p && budget.fits(plan.peak_bytes + gram)) {
    plan.solver = Solver::dual;
    plan.peak_bytes += gram;
  }
  budget.require(plan.peak_bytes, "this problem");
  return plan;
}

}  // namespace

double direct_bytes(const Problem& problem, double size, Solver solver, int threads) {
  const double gram = size * size * kDouble;
  if (problem.options.ridge && *problem.options.ridge > 0) return gram;
  if (problem.options.ridge) return 4 * gram;  // eigenvectors and LAPACK's workspace
  const double rows = threads * 2.0 * kRowTile * size * kDouble;
  const double penalties = 44, outputs = static_cast<double>(problem.outputs);  // at most 22 decades
  return (solver == Solver::dual ? 2 : 1) * gram + rows + penalties * size * (3 * 32 + 2 * outputs) * kDouble;
}

Plan make_plan(const Problem& problem, const Execution& execution) {
  if (problem.options.features.infinite()) return plan_infinite_heads(problem, execution);
  const MemoryBudget budget(execution);
  const Shape shape = shape_of(problem);
  budget.require(shape.data + shape.heads, join("the model with ", problem.options.features.heads, " heads"));
  Plan plan = problem.is_squared_ridge() ? plan_ridge(problem, shape, budget, execution)
                                         : plan_convex(problem, shape, budget);
  const bool repeated = !problem.is_squared_ridge() && plan.solver == Solver::iterative;
  plan.cache_features =
      (shape.features() <= kCacheLimit || repeated) && budget.fits(plan.peak_bytes + shape.features());
  if (plan.cache_features)
    plan.peak_bytes += shape.features();
  else if (repeated)
    execution.note("the features do not fit in memory and are recomputed at every step: this will be slow");
  return plan;
}

}  // namespace headlens
