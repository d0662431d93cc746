// Levenberg-Marquardt on the projected problem, every step by preconditioned conjugate gradients:
//
//   (J^T P_perp J + mu) dTheta = J^T r,    preconditioner I_d x (B + mu)
//
// mu in units of |Y|^2 / (m d^2). Accepted: mu *= max(.2, 1 - (2 rho - 1)^3), rho the ratio of the decrease
// to the predicted one; rejected: mu *= nu, nu *= 2. The ridge that keeps W tame at the start falls with the
// residual: ridge <- max(1e-14, min(0.7 ridge, 1e-2 relative squares)).
#pragma once

#include <functional>
#include <memory>

#include "backend/layer_problem.hpp"
#include "headlens/execution.hpp"

namespace headlens::recovery {

struct LmOptions {
  double ridge = 1e-3;
  double mu = 1e-2;
  double tolerance = 1e-27;  // on |r|^2 / |Y|^2: just above the floor that rounding leaves
  int max_steps = 250;
  int max_inner = 200;       // CG iterations per step
  bool ends_capped = false;  // ends at a step that max_inner iterations do not solve and that wins little
  double tightest = 1e-4;  // relative error to which the equations of a step are solved: what float can give
  // Takes from a gradient what exact sums would not leave in it: its part along directions that change
  // nothing.
  std::function<void(const Matrix<double>& parameters, Matrix<double>& gradient)> clean;
  int stall_steps = 30;  // no progress over this many steps ends the run
  double stall_factor = 0.9;
  // Promised decreases this small beside the cost, three times in a row: a minimum with a residual, i.e.
  // noise. A decrease of delta is sqrt(delta c) standard errors, c the equations per unknown.
  double flat = 1e-6;
  // Asked where five steps have won less than a tenth: is what is left noise? Surplus heads would go on
  // fitting it for long, a little more with every step. Empty: never.
  std::function<bool(const backend::LayerProblem&, const backend::LayerPoint&)> is_noise;
};

enum class LmStatus { converged, minimum, stalled, capped, out_of_steps, out_of_time };

struct LmResult {
  LmStatus status = LmStatus::stalled;
  double relative_squares = 1;  // |r|^2 / |Y|^2
  int steps = 0;
  int inner = 0;  // CG iterations
};

using LmProgress = std::function<void(int step, double relative_squares)>;

// Starts from point->parameters and leaves the best point there. `expired` ends the run, within a step too.
LmResult minimise(const backend::LayerProblem& problem, std::unique_ptr<backend::LayerPoint>& point,
                  const LmOptions& options, const std::function<bool()>& expired, const LmProgress& progress);

}  // namespace headlens::recovery
