// Newton's method with conjugate gradients for minimise P(V, b) = L(Phi V + 1 b^T) + ridge |V|^2, ridge > 0,
// when only K = Phi Phi^T can be applied (and may be singular).
//
// V = Phi^T A with A n x q, so F = K A + 1 b^T and |V|^2 = <A, K A>; Phi^T g is the gradient, g = L'(F) + 2
// ridge A. A step solves (D~ K + 2 ridge) dA = -g by conjugate gradients in the inner product <., K .>, where
// this operator is self-adjoint; D~ = D - D 1 S^-1 1^T D, S = 1^T D 1, is the curvature D of L with b
// eliminated. One application of K per CG iteration; the line search needs none, since K dA is known.
//
// Certificate. b is minimised exactly, and P is 2 ridge strongly convex in V, so P - min P <= <g, K g> / (4
// ridge). The hinge goes another way, an interior-point path with an exact duality gap (hinge_path.hpp).
#pragma once

#include <optional>
#include <vector>

#include "fit/convex/loss.hpp"
#include "headlens/execution.hpp"
#include "headlens/fit.hpp"
#include "linalg/block_operator.hpp"

namespace headlens::training {

struct NewtonOptions {
  double ridge = 0;  // > 0
  bool intercept = true;
  std::optional<double> tolerance;  // on the relative gap; default 1e-8, 1e-6 for the hinge
  int max_iterations = 200;         // Newton steps
  int max_inner_iterations = 1000;  // CG iterations per step

  void validate() const;
};

struct DualPoint {
  Matrix<double> dual;            // A, n x q
  std::vector<double> intercept;  // b, q
};

struct NewtonSolution {
  FitStatus status = FitStatus::stalled;  // solved or stalled
  DualPoint point;                        // b = 0 without intercept
  Matrix<double> scores;                  // F on all rows, those of weight 0 included: held-out predictions
  double loss = 0;                        // L(F)
  double objective = 0;                   // L(F) + ridge |V|^2
  // (objective - optimum) / scale is at most this, certified; scale = objective, but at least 1e-6 of the
  // objective at V = 0, so that a perfect fit can be certified too.
  double gap = 0;
  int iterations = 0;  // Newton steps
  int operator_applications = 0;
  bool intercept_capped = false;  // a class has no examples: see fit/convex/intercept.hpp
};

// `start` may come from another ridge or fold; the hinge does not use it.
[[nodiscard]] NewtonSolution minimise_newton(const LossFunction& loss, const BlockOperator& kernel,
                                             const NewtonOptions& options, const Execution& execution,
                                             const DualPoint* start = nullptr);

}  // namespace headlens::training
