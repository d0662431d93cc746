// Infinitely many heads: the kernel matrix if it fits, else as many centres as do.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "fit/design_matrix.hpp"
#include "fit/plan.hpp"
#include "headlens/error.hpp"
#include "kernels/closed_form.hpp"

namespace headlens {
namespace {

constexpr double kDouble = 8;

class InfinitePlan {
 public:
  InfinitePlan(const Problem& problem, const Execution& execution)
      : problem_(problem),
        options_(problem.options),
        budget_(execution),
        execution_(execution),
        n_(static_cast<double>(problem.count())),
        q_(static_cast<double>(problem.outputs)) {
    const FeatureOptions& f = options_.features;
    const TokenSource source(problem.sets, f.kind, f.positions, f.precision);
    const double data = static_cast<double>(problem.sets.query().bytes() + problem.sets.keys().bytes());
    tokens_ = kDouble * static_cast<double>(problem.sets.dim()) *
              (n_ + static_cast<double>(problem.sets.total_keys()));
    base_ = data + ClosedFormKernel(f, false).buffer_bytes(source, source, thread_count(execution)) +
            8 * n_ * q_ * kDouble;
  }

  Plan make() const {
    const bool exact = problem_.is_squared_ridge() && !options_.centres &&
                       (options_.solver == Solver::automatic || options_.solver == Solver::dual);
    // The solver's matrices and one copy, to measure the residual with.
    Plan plan{.solver = Solver::dual};
    plan.peak_bytes = base_ + tokens_ + n_ * n_ * kDouble +
                      direct_bytes(problem_, n_, Solver::dual, thread_count(execution_));
    if (exact && budget_.fits(plan.peak_bytes)) return plan;
    if (options_.solver == Solver::dual)
      budget_.require(plan.peak_bytes, "the kernel matrix with its solver");
    const std::string reason = exact ? join("the kernel matrix would need ",
                                            format_bytes(static_cast<std::uint64_t>(plan.peak_bytes)), " of ",
                                            format_bytes(budget_.limit_bytes()), ": ")
                                     : "";
    plan = nystrom();
    if (!options_.centres && plan.centres < problem_.count())
      execution_.note(message(reason, "using ", plan.centres, " of ", problem_.count(), " sets as centres (",
                              option("centres"), ")"));
    return plan;
  }

 private:
  Plan nystrom() const {
    if (options_.centres) {
      require(*options_.centres <= problem_.count(), option("centres"), ": ", *options_.centres,
              " given, but there are only ", problem_.count(), " sets");
      const Plan plan = nystrom(*options_.centres);
      budget_.require(plan.peak_bytes, join("the fit with ", plan.centres, " centres"));
      return plan;
    }
    // Falkon's theory asks for a multiple of sqrt(n); fewer sets than 2000 are all taken.
    const double wanted = std::min(n_, std::max(2000.0, 10 * std::sqrt(n_)));
    Index most = static_cast<Index>(wanted), least = 1;
    budget_.require(nystrom(least).peak_bytes, "the fit with a single centre");
    while (least < most) {
      const Index middle = least + (most - least + 1) / 2;
      budget_.fits(nystrom(middle).peak_bytes) ? least = middle : most = middle - 1;
    }
    return nystrom(least);
  }

  Plan nystrom(Index centres) const {
    const double m = static_cast<double>(centres), cache = n_ * m * kDouble, square = m * m * kDouble;
    const int threads = thread_count(execution_);
    const Index block = options_.block_sets > 0 ? options_.block_sets : kRowTile;
    const double rows = std::min(n_, std::ceil(static_cast<double>(block) / kRowTile) * kRowTile);
    Plan plan{.solver = options_.solver, .centres = centres};
    plan.peak_bytes = base_ + tokens_ * m / n_ + square + rows * m * kDouble + 4 * m * q_ * kDouble;
    if (!problem_.is_squared_ridge()) {
      // These solvers apply the Gram matrix many times.
      plan.solver = centres == problem_.count() ? Solver::dual : Solver::iterative;
      plan.cache_features = true;
      plan.peak_bytes += cache + (plan.solver == Solver::dual ? square : 0.0) + 20 * (n_ + m) * q_ * kDouble;
      return plan;
    }
    // Leave-one-out needs a factorisation. For one penalty, conjugate gradients are cheaper, if the features
    // need not be computed again at every step.
    const bool cheap_steps =
        options_.ridge && *options_.ridge > 0 && budget_.fits(plan.peak_bytes + square + cache);
    if (plan.solver == Solver::automatic) plan.solver = cheap_steps ? Solver::iterative : Solver::primal;
    plan.peak_bytes +=
        plan.solver == Solver::iterative ? square : direct_bytes(problem_, m, Solver::primal, threads);
    plan.cache_features = budget_.fits(plan.peak_bytes + cache);
    if (plan.cache_features) plan.peak_bytes += cache;
    return plan;
  }

  const Problem& problem_;
  const FitOptions& options_;
  MemoryBudget budget_;
  const Execution& execution_;
  double n_, q_;
  double tokens_ = 0;  // what the model stores of all sets
  double base_ = 0;    // what every path holds
};

}  // namespace

Plan plan_infinite_heads(const Problem& problem, const Execution& execution) {
  return InfinitePlan(problem, execution).make();
}

}  // namespace headlens
