// Expectations of a pair of Gaussian scores, one pair at a time and to full accuracy:
//
//   relu_moment   E[relu(h + g) relu(k + g')]        step_moment   P(h + g > 0, k + g' > 0) = Phi2(h, k; rho)
//
// g, g' standard normal with correlation rho in [-1, 1]. With q = sqrt(1 - rho^2), u = (k - rho h) / q and
// v = (h - rho k) / q,
//
//   relu_moment = (h k + rho) Phi2 + k phi(h) Phi(u) + h phi(k) Phi(v) + q phi(h) phi(u)
//   Phi2        = (Phi(h) + Phi(k)) / 2 - T(h, u / h) - T(k, v / k) - [h, k of opposite signs] / 2,
//
// T Owen's function (Owen 1956). Near rho = +-1 the numerators of u and v are differences of nearly equal
// numbers and are taken as (k - h) + (1 - rho) h and alike, which loses nothing: the error is a few ulp of 1
// + |h k| for every rho.
#pragma once

namespace headlens::cpu {

double step_moment(double h, double k, double rho);
double relu_moment(double h, double k, double rho);

// E[relu(m + s g) relu(n + t g')] for any standard deviations s, t >= 0, zero included.
double relu_moment(double m, double s, double n, double t, double rho);

}  // namespace headlens::cpu
