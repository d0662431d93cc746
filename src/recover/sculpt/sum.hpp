// Phase 1: a crude sum of projections S = sum_i W_i from correlations of inputs and labels.
//
// Y_a is regressed on [x_a, sum_{c != a} x_c], giving (A, B). To first order in Theta, for random signs,
//   k B = S - (1/k) sum_i (tr Theta_i + Theta_i^T) W_i + ..,   A + (k-1) B = S + ((k-1)/k) sum_i Theta_i W_i
//   + ..
// The first is taken for k >= 3, the second for k = 2. These biases do not shrink with more examples.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery::sculpting {

struct ProjectionSum {
  Matrix<double> s;  // (d, e)
};

ProjectionSum sum_of_projections(const Split& split, int threads);

}  // namespace headlens::recovery::sculpting
