// The spectrum of the network without attention, K(x, x') = kappa(rho), rho the mean over all N + 1 tokens of
// (1 + <x_i, x'_i>) / 2. From
//
//   kappa(rho) = 1/(2 pi) + rho/4 + (1/pi^2) int_0^inf K_0(z) (cosh(rho z) - 1) / z^2 dz
//
// (its second derivative is 1 / (2 pi sqrt(1 - rho^2))) the eigenvalue of a product of harmonics of degrees
// a_0 .. a_N, with y = z / (2 (N + 1)) and g = cosh where their sum is even, else sinh, is
//
//   (1/pi^2) int_0^inf K_0(z) z^-2 g(z/2) prod_i E[exp(y T) P_{a_i}(T)] dz
//
// plus the terms of degrees 0 and 1 in rho. The integrand is positive, and analytic in log z, where the
// trapezoidal rule converges geometrically.
#pragma once

#include "theory/spectrum.hpp"

namespace headlens {

class NetworkSpectrum : public KernelSpectrum {
 public:
  NetworkSpectrum(Index dim, Index keys);
  double log_eigenvalue(Index query_degree, Index key_degree) const override;
  Levels levels(Index degree) const override;  // of all products whose degrees sum to at most `degree`

 private:
  double constant() const;  // eigenvalue of the constant function
  double linear() const;    // what the term rho / 4 adds to harmonics of degree 1

  Index dim_, keys_;
  std::vector<double> y_;
  std::vector<double> log_k0_, log_wave_;   // log K_0(z), log E[exp(y T)]
  std::vector<double> log_even_, log_odd_;  // log of step K_0 / z g(z) / pi^2 E[exp(y T)]^(N + 1)
};

}  // namespace headlens
