#include "attention/magnitude.hpp"

#include <algorithm>

namespace headlens {
namespace {

constexpr int kLeastExponent = -1020;

// sqrt(sum of entry(j)^2), where entry(j) is given in units of 2^exponent.
template <class Entry>
Magnitude root_of_squares(Index size, int exponent, Entry&& entry) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += entry(j) * entry(j);
  return {std::sqrt(sum), exponent};
}

}  // namespace

int exponent_of(const double* a, Index size) {
  double largest = 0;
  for (Index j = 0; j < size; ++j) largest = std::max(largest, std::abs(a[j]));
  return largest > 0 ? std::max(std::ilogb(largest) + 1, kLeastExponent) : 0;
}

std::vector<double> in_units(const double* a, Index size, int exponent) {
  std::vector<double> out(a, a + size);
  const double unit = std::ldexp(1.0, -exponent);
  for (double& entry : out) entry *= unit;
  return out;
}

Magnitude norm_of(const double* a, Index size) {
  const int exponent = exponent_of(a, size);
  const double unit = std::ldexp(1.0, -exponent);
  return root_of_squares(size, exponent, [&](Index j) { return a[j] * unit; });
}

// The difference may be far smaller than a and b, so that it gets units of its own.
Magnitude distance_of(const double* a, const double* b, Index size) {
  const int exponent = std::max(exponent_of(a, size), exponent_of(b, size));
  const double unit = std::ldexp(1.0, -exponent);
  std::vector<double> difference(static_cast<std::size_t>(size));
  for (Index j = 0; j < size; ++j) difference[static_cast<std::size_t>(j)] = a[j] * unit - b[j] * unit;
  const Magnitude out = norm_of(difference.data(), size);
  return {out.mantissa, out.exponent + exponent};
}

double ratio(const Magnitude& a, const Magnitude& b) {
  return std::ldexp(a.mantissa / b.mantissa, a.exponent - b.exponent);
}

}  // namespace headlens
