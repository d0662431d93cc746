// Norms of matrices of every magnitude that a double holds. Entries are taken in units of a power of two in
// which the largest is about one: no square or sum overflows, and an entry that underflows there is below
// 1e-300 of the largest.
#pragma once

#include <cmath>
#include <vector>

#include "headlens/array.hpp"

namespace headlens {

// The power of two of the units: the largest entry is below 2^exponent. -1020 or more, so that 2^-exponent is
// a number, too.
int exponent_of(const double* a, Index size);
std::vector<double> in_units(const double* a, Index size, int exponent);  // a 2^-exponent

struct Magnitude {
  double mantissa = 0;  // |a|_F = mantissa 2^exponent
  int exponent = 0;

  double value() const { return std::ldexp(mantissa, exponent); }  // infinite where a double cannot hold it
};
Magnitude norm_of(const double* a, Index size);
Magnitude distance_of(const double* a, const double* b, Index size);
double ratio(const Magnitude& a, const Magnitude& b);  // b is not zero

}  // namespace headlens
