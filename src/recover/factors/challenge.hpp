// Bounds on the errors of heads in factors, and an attempt to break them.
//
// To first order the error nu of the labels moves the factors by dz = (J^T P_perp J)^+ J^T P_perp nu, and a
// head by dTheta = dQ K^T + Q dK^T, dW = dV O + V dO, which do not depend on the gauge. With the lowest
// eigenvalues l_1 <= .. <= l_b of J^T P_perp J (gauge.hpp) and v_r their directions,
//
//   |dTheta|^2 <= |nu|^2 (sum_r |dTheta(v_r)|^2 / l_r + 2 s / l_b),   s the largest singular value of Theta,
//
// because all other eigenvalues are larger than l_b and |dTheta|^2 <= 2 s |dz|^2. Errors of W follow those of
// the factors; their size is taken from draws of nu, and so are the bars of labels with noise.
#pragma once

#include "recover/certificate/bounds.hpp"
#include "recover/factors/polish.hpp"

namespace headlens::recovery {

struct FactorBars {
  bool resolved = false;         // every draw was solved for, and the lowest eigenvalue is above rounding
  double noise = 0;              // deviation of the labels' noise, from the residual
  std::vector<HeadBound> heads;  // |error| stays below these: always, or with probability 0.95 for noise
  double label_error = 0;        // what the bounds allow for, as a norm over all equations
  double response = 0;           // smallest singular value of P_perp J, in units of |Y| / |parameters|
};
enum class LabelsAre { exact, noisy };
FactorBars factor_bars(const Split& split, const Factors& factors, LabelsAre labels, std::uint64_t seed,
                       Effort& effort);

// Nudged by a thousandth, do the heads come back, with so many iterations of conjugate gradients per step?
bool factors_come_back(const Split& split, const Factors& factors, int inner, std::uint64_t seed,
                       Effort& effort);

// The largest relative distance of Theta or W over heads of the same number.
double factor_distance(const Factors& a, const Factors& b, int threads = 1);

}  // namespace headlens::recovery
