// Which solver, and what it will take in memory. Decided from shapes and the budget alone, before anything is
// allocated.
#pragma once

#include "fit/problem.hpp"

namespace headlens {

struct Plan {
  Solver solver = Solver::dual;  // primal, dual or iterative
  bool cache_features = false;   // hold all of Phi
  Index sketch = 0;              // rank of the Nystrom preconditioner, iterative only
  Index centres = 0;  // infinitely many heads: Nystrom on so many sets; 0: the kernel matrix itself
  double peak_bytes = 0;
};

// Throws Error{memory} when no path fits; notes when a slower one is taken.
Plan make_plan(const Problem& problem, const Execution& execution);
Plan plan_infinite_heads(const Problem& problem, const Execution& execution);

// The Gram matrix of that size and what its direct solver keeps beside it.
double direct_bytes(const Problem& problem, double size, Solver solver, int threads);

}  // namespace headlens
