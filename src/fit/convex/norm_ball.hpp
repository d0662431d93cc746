// Training over a norm ball: minimise P(V, b) = L(Phi V + 1 b^T) + ridge |V|^2, ridge >= 0, over
//   B = { V : sum_m |v_m| <= k1, sum_m |v_m|^2 <= k2 },
// v_m the rows of V (p x q) in group m, | | the Frobenius norm.
//
// b is eliminated exactly (fit/convex/intercept.hpp), so P becomes h(V) = min_b P(V, b), as smooth and as
// convex. Then accelerated projected gradients: FISTA with a step length that adapts both ways (Scheinberg,
// Goldfarb & Bai 2014), restarted when the momentum points uphill (O'Donoghue & Candes 2015), and monotone.
// One product with Phi and one with Phi^T per iteration, a few more for failed steps and for the certificate.
//
// Certificate, G = grad h(V): convexity gives P - min P <= max_{S in B} <G, V - S> - ridge |V - S|^2. For
// ridge > 0 the maximum is at S = project(V - G / (2 ridge)); for ridge = 0 it is <G, V> + support(-G). The
// hinge is solved as hinge_gamma, gamma falling; the bound for the hinge itself adds
// LossFunction::smoothing_slack.
#pragma once

#include <vector>

#include "fit/convex/loss.hpp"
#include "headlens/execution.hpp"
#include "headlens/fit.hpp"
#include "linalg/block_operator.hpp"

namespace headlens::training {

struct GroupedDesign {
  BlockOperator forward;            // Phi V, n x q
  BlockOperator adjoint;            // Phi^T R, p x q
  std::vector<Index> group_of_row;  // p entries; rows in group -1 are padding and stay 0
};

struct NormBallOptions {
  NormBall ball;  // k1, k2 > 0; one may be infinite, both if ridge > 0
  double ridge = 0;
  bool intercept = true;
  double tolerance = 1e-4;  // on the relative gap
  int max_iterations = 5000;

  void validate() const;
};

struct NormBallSolution {
  FitStatus status = FitStatus::stalled;  // solved or stalled
  Matrix<double> values;                  // V, p x q, inside the ball to rounding
  std::vector<double> intercept;          // b; 0 without intercept
  Matrix<double> scores;                  // F, n x q
  double loss = 0;                        // L(F)
  double objective = 0;
  // (objective - optimum) / scale is at most this, certified; scale = objective, but at least 1e-3 of the
  // objective at V = 0, so that a perfect fit can be certified too.
  double gap = 0;
  int iterations = 0;
  int operator_applications = 0;  // forward and adjoint together
  bool intercept_capped = false;  // see fit/convex/intercept.hpp
};

[[nodiscard]] NormBallSolution minimise_over_ball(const LossFunction& loss, const GroupedDesign& design,
                                                  const NormBallOptions& options, const Execution& execution);

}  // namespace headlens::training
