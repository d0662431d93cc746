// Bessel functions as the mean of a plane wave over the sphere, in logarithms, for d >= 2 and y > 0:
//
//   E[exp(y T) P_a(T)] = Gamma(nu + 1) (2 / y)^nu I_{a + nu}(y),    nu = d/2 - 1,
//
// by the power series (positive terms) where it is short, else by Debye's expansion, which is uniform in
// order and argument once either is large (NIST DLMF 10.25.2, 10.41.3).
#pragma once

#include "headlens/array.hpp"

namespace headlens {

double log_plane_wave(Index dim, Index degree, double y);

double log_bessel_k0(double z);

}  // namespace headlens
