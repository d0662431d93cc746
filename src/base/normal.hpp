// The standard normal distribution.
#pragma once

#include <cmath>
#include <numbers>

namespace headlens {

inline double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }
inline double normal_probability(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }  // P(g < x)

}  // namespace headlens
