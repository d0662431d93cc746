// relu of a normal variable in Hermite polynomials: for standard normal g, g' of correlation rho,
//
//   E[relu(h + g) relu(k + g')] = sum_t rho^t c_t(h) c_t(k) / t!
//   c_0 = h Phi(h) + phi(h),  c_1 = Phi(h),  c_t = (-1)^t He_{t-2}(h) phi(h)
#pragma once

#include <vector>

#include "headlens/array.hpp"

namespace headlens {

// c_t(h) / sqrt(t!) for t = 0 .. count - 1; by the recurrence of He_n / sqrt(n!), so nothing overflows.
std::vector<double> relu_series(double h, Index count);

// E[relu(h + g)^2] = (1 + h^2) Phi(h) + h phi(h)
double relu_square(double h);

}  // namespace headlens
