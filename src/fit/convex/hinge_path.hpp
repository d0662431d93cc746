// The hinge loss by an interior-point path: minimise sum_e c_e max(0, 1 - s_e F_e) + ridge |V|^2 over the
// entries e of F = K A + 1 b^T, c = w / sum w.
//
// Optimal are duals a in [0, 1] with A = s c a / (2 ridge), 1 - s F = xi - eta, xi (1 - a) = 0, eta a = 0,
// and 1^T A = 0 when there is an intercept. The path replaces both zeros by mu -> 0. Eliminating xi and eta
// from a Newton step towards it leaves, for x = dA,
//   (K + 2 ridge / c (xi / (1 - a) + eta / a)) x + 1 db^T = s (1 - s F - mu / (1 - a) + mu / a),  1^T x = 0.
//
// Certificate: A is dual feasible, so P - min P <= sum_e c_e (max(0, m) - a m) with m = 1 - s F. Costs
// nothing.
//
// Why not Newton on the smoothed hinge: its second derivative jumps, and below gamma = 1e-3 hundreds of short
// steps were needed, or all of 200 did not do (n = 400). The path took 10 to 28 steps on the same problems.
#pragma once

#include "fit/convex/newton.hpp"

namespace headlens::training {

[[nodiscard]] NewtonSolution minimise_hinge(const LossFunction& loss, const BlockOperator& kernel,
                                            const NewtonOptions& options, const Execution& execution);

}  // namespace headlens::training
