// Spherical harmonics of one token, uniform on the unit sphere of R^d, d >= 2. T is one coordinate of it, and
// P_a the Legendre (Gegenbauer) polynomial of degree a with P_a(1) = 1, E[P_a(T)^2] = 1 / D_a. Logarithms,
// because D_a grows as d^a and what it multiplies falls as fast.
#pragma once

#include "headlens/array.hpp"

namespace headlens {

// log D_a, the number of independent harmonics: D_a = (2a + d - 2) / a * binomial(a + d - 3, a - 1), D_0 = 1.
double log_harmonics(Index dim, Index degree);

// log E[T^p P_a(T)] = log( p! / ((p - a)! 2^a) * (1/2)_m / (d/2)_{m + a} ), m = (p - a) / 2 a whole number,
// from Rodrigues' formula; (x)_k = x (x + 1) ... (x + k - 1). It is zero (not to be asked for) for odd p - a.
double log_monomial_share(Index dim, Index power, Index degree);

}  // namespace headlens
