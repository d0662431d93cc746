// Complexity and learning curve for heads around a multiple of the identity, d >= 3.
//
// Targets that are unchanged when queries, keys and beta are turned together lie in few types of functions
// (rotation_lattice.hpp): <beta, x> g(<x_0, x>), so native and correlations with the identity, in type (1,
// 0); power means and query powers of degree p in types (a, 0), a <= p.
#pragma once

#include "headlens/tasks.hpp"
#include "theory/biased_kernel.hpp"
#include "theory/learning_curve.hpp"

namespace headlens {

std::vector<RotationTarget> rotation_targets(const TaskOptions& task);

// sum over targets of h^T K^-1 h on the functions of degrees up to L: a lower bound of B that rises to B with
// L.
struct BiasedComplexity {
  double value = 0;
  bool converged = false;  // eight degrees fewer make a difference of at most 0.5%
};
BiasedComplexity biased_complexity(const BiasedKernel& kernel, const std::vector<RotationTarget>& targets);

// Levels of sets of `keys` keys, enough for so many samples, and the parts of the targets on them.
LearningCurve biased_curve(const BiasedKernel& kernel, const std::vector<RotationTarget>& targets, Index keys,
                           double noise, Index most_samples, const Execution& execution);

}  // namespace headlens
