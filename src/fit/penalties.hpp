// The penalties that are tried, and the choice among them.
#pragma once

#include <vector>

#include "headlens/fit.hpp"

namespace headlens::training {

// Where the grid ends: the smallest shift as a share of the mean diagonal.
constexpr double smallest_share(Precision precision) { return precision == Precision::f32 ? 1e-5 : 1e-9; }

// Half decades from 1e3 * mean_diagonal down to where rounding of the features drowns the shift n ridge.
std::vector<double> ridge_grid(double mean_diagonal, Index count, Precision precision);

// The largest penalty among those with the smallest error; errors that are not finite do not count.
Index best_trial(const std::vector<RidgeTrial>& trials);

}  // namespace headlens::training
