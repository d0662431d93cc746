// Examples in units in which tokens and labels are of size one, and results back in the units given. Starts,
// damping and single precision count on that size. The units are powers of two, so nothing is rounded:
//
//   X = a X',  Y = b Y':    Theta = Theta' / a^2,  W = W' b / a
#pragma once

#include "headlens/recover.hpp"

namespace headlens {

struct Units {
  double tokens = 1, labels = 1;  // a, b
};

Units units_of(const Examples& examples);
Examples in_units(const Examples& examples, const Units& units);  // X', Y'; the same arrays where both are 1
void from_units(const Units& units, Recovery& recovery);

}  // namespace headlens
