// Which solver, and what it will take in memory. Decided from shapes and the budget alone, before anything is
// allocated.
#pragma once

#include "fit/problem.hpp"

namespace headlens {

struct Plan {
  Solver solver = Solver::dual;  // primal, dual or iterative
  bool cache_features = false;   // hold all of Phi
  Index sketch = 0;              // rank of the Nystrom preconditioner, iterative only
  double peak_bytes = 0;
};

// Throws Error{memory} when no path fits; notes when a slower one is taken.
Plan make_plan(const Problem& problem, const Execution& execution);

}  // namespace headlens
