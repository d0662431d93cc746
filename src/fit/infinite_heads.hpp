// The fit with infinitely many heads: kernel ridge regression on the kernel matrix, or any solver for
// features on Nystrom features of random centres.
//
//   exact     V = sum_i alpha_i phi(x_i) over centred features, alpha = (H K H + n ridge)^-1 Y,
//             H = I - 1 1^T / n; 1^T alpha = 0, so
//             f(x) = mean(y) + sum_i alpha_i (K(x, x_i) - mean_j K(x_j, x_i))
//   Nystrom   V = sum_j a_j phi(z_j), conjugate gradients preconditioned by the centres themselves, as in
//             Falkon (Rudi, Carratino, Rosasco 2017), or the primal solver with exact leave-one-out
#pragma once

#include "fit/plan.hpp"
#include "fit/problem.hpp"

namespace headlens::training {

Fit fit_infinite_heads(const Problem& problem, const Plan& plan, const backend::Context& context);

}  // namespace headlens::training
