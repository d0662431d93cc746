// How far the heads may be off, from the linearised problem. With label noise of deviation sigma,
//
//   dTheta = (J^T P_perp J)^-1 J^T P_perp noise,    dW = (Phi^T Phi)^-1 Phi^T (noise - J dTheta)
//
// are, to first order, the errors of least squares. They are drawn, not computed: one solve per draw, and no
// matrix of the size of the unknowns squared. For one head let t = mean |d|^2 over R draws, an estimate of
// the trace of its covariance C, and f = t^2 / mean <d_r, d_s>^2 over pairs, one of (tr C)^2 / tr C^2, its
// degrees of freedom. |error|^2 / t is then about F(f, R f), whose 95% point is the squared bar.
//
// Where the residual is not noise but what the solver left, it may lean to any direction, and the bar is a
// bound: |error|^2 <= |residual|^2 lambda_max(C) <= |residual|^2 (tr C^2)^(1/2).
#pragma once

#include <functional>
#include <vector>

#include "backend/layer_problem.hpp"

namespace headlens::recovery {

enum class ResidualIs { noise, anything };

struct HeadBars {
  double theta = 0, w = 0;  // |error|_F stays below these: with probability 0.95 for noise, else always
};

struct ErrorBars {
  double noise = 0;  // sigma, from the residual and the equations that are left after fitting
  std::vector<HeadBars> heads;
  std::vector<Matrix<double>> draws;  // the first three dTheta: they lean to where the problem is weakest
  int inner = 0;                      // CG iterations
};

// |residual| over its root mean square. Noise need not be of one size: rounding is larger where labels are.
// The residual of every label, times a random number, stands for the noise of that label, whatever its size.
Matrix<double> noise_sizes(Matrix<double> residual, double labels);

ErrorBars error_bars(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                     ResidualIs residual, std::uint64_t seed, const std::function<bool()>& stop);

}  // namespace headlens::recovery
