// Which way to fit, and what it will take in memory. Decided from shapes and the budget alone, before
// anything is allocated; the fit then follows the plan.
#pragma once

#include "backend/backend.hpp"
#include "fit/problem.hpp"

namespace headlens::training {

inline constexpr Index kLeftOut = 512;  // examples whose leave-one-out errors stand for all, in f32

struct Plan {
  backend::Route route;
  bool hold_features = false;  // all of Phi
  Index sketch = 0;            // conjugate gradients: rank of the Nystrom preconditioner; 0: the design's own
  Index centres = 0;           // infinitely many heads: Nystrom on so many sets; 0: the kernel matrix itself
  double peak_bytes = 0;
  // Where f32 does not carry, the same route in f64 takes over: the larger peak of the two.
  double exact_bytes = 0;
};

// Throws Error{memory} when no route fits; notes when a slower one is taken.
Plan make_plan(const Problem& problem, const backend::Context& context);
Plan plan_infinite_heads(const Problem& problem, const backend::Context& context);

Solver solver_of(const backend::Route& route);  // as users know it

// The direct route of the squared loss on a side with that many unknowns: by the penalty, and in f32 where
// the system is large.
backend::Route direct_route(const Problem& problem, backend::Side side, double unknowns,
                            const backend::Backend& machine);

// What the back end takes, and what the vectors of the algorithm take beside it. The number of columns is
// that of the design.
double peak_bytes(const Problem& problem, const Plan& plan, double columns, const backend::Context& context);
// Fills in both numbers of the plan.
void predict_bytes(const Problem& problem, Plan& plan, double columns, const backend::Context& context);

}  // namespace headlens::training
