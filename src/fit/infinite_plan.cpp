// Infinitely many heads: the kernel matrix if it fits, else as many centres as do.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "fit/plan.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens::training {
namespace {

using backend::Method;
using backend::Side;

class InfinitePlan {
 public:
  InfinitePlan(const Problem& problem, const backend::Context& context)
      : problem_(problem),
        options_(problem.options),
        context_(context),
        budget_(context.execution, context.machine.free_bytes()) {}

  Plan make() const {
    const bool exact = problem_.is_squared_ridge() && !options_.centres &&
                       (options_.solver == Solver::automatic || options_.solver == Solver::dual);
    Plan plan{.route = direct_route(problem_, Side::dual, 0, context_.machine)};
    predict_bytes(problem_, plan, 0, context_);
    if (exact && budget_.fits(plan.peak_bytes)) return plan;
    if (options_.solver == Solver::dual)
      budget_.require(plan.peak_bytes, "the kernel matrix with its solver");
    const std::string reason = exact ? join("the kernel matrix would need ",
                                            format_bytes(static_cast<std::uint64_t>(plan.peak_bytes)), " of ",
                                            format_bytes(budget_.limit_bytes()), ": ")
                                     : "";
    plan = nystrom();
    if (!options_.centres && plan.centres < problem_.count())
      context_.execution.note(message(reason, "using ", plan.centres, " of ", problem_.count(),
                                      " sets as centres (", option("centres"), ")"));
    return plan;
  }

 private:
  Plan nystrom() const {
    if (options_.centres) {
      require(*options_.centres <= problem_.count(), option("centres"), ": ", *options_.centres,
              " given, but there are only ", problem_.count(), " sets");
      const Plan plan = nystrom(*options_.centres);
      budget_.require(plan.exact_bytes, join("the fit with ", plan.centres, " centres"));
      return plan;
    }
    // Falkon's theory asks for a multiple of sqrt(n); fewer sets than 2000 are all taken.
    const auto n = static_cast<double>(problem_.count());
    const double wanted = std::min(n, std::max(2000.0, 10 * std::sqrt(n)));
    Index most = static_cast<Index>(wanted), least = 1;
    budget_.require(nystrom(least).exact_bytes, "the fit with a single centre");
    while (least < most) {
      const Index middle = least + (most - least + 1) / 2;
      budget_.fits(nystrom(middle).exact_bytes) ? least = middle : most = middle - 1;
    }
    return nystrom(least);
  }

  // With the features held if they fit, or because they must be.
  Plan nystrom(Index centres) const {
    // These solvers apply the Gram matrix many times.
    if (!problem_.is_squared_ridge())
      return predicted(centres,
                       {centres == problem_.count() && context_.ranks.alone() ? Method::newton
                                                                              : Method::newton_on_features},
                       true);
    const backend::Route iterative{Method::conjugate_gradients, Side::primal, Precision::f64};
    const backend::Route direct =
        direct_route(problem_, Side::primal, static_cast<double>(centres), context_.machine);
    const Plan held_iterative = predicted(centres, iterative, true);
    // Leave-one-out needs a factorisation. For one penalty, conjugate gradients are cheaper, if the features
    // need not be computed again at every step.
    const bool cheap_steps = options_.ridge && *options_.ridge > 0 && budget_.fits(held_iterative.peak_bytes);
    const bool iterate =
        options_.solver == Solver::automatic ? cheap_steps : options_.solver == Solver::iterative;
    const Plan held = iterate ? held_iterative : predicted(centres, direct, true);
    if (budget_.fits(held.exact_bytes)) return held;
    return predicted(centres, iterate ? iterative : direct, false);
  }

  Plan predicted(Index centres, backend::Route route, bool hold) const {
    Plan plan{.route = route, .hold_features = hold, .centres = centres};
    predict_bytes(problem_, plan, static_cast<double>(centres), context_);
    return plan;
  }

  const Problem& problem_;
  const FitOptions& options_;
  const backend::Context& context_;
  MemoryBudget budget_;
};

}  // namespace

Plan plan_infinite_heads(const Problem& problem, const backend::Context& context) {
  return InfinitePlan(problem, context).make();
}

}  // namespace headlens::training
