// Targets of the squared loss, less their mean.
#pragma once

#include <vector>

#include "fit/problem.hpp"

namespace headlens::training {

// Y less its mean, which becomes the offset. Exactly zero where a column is constant.
Matrix<double> centre_targets(const Problem& problem, std::vector<double>& offset);

// Every ridge gives V = 0: nothing to solve, nothing to choose. Then says so in the report.
bool are_constant(MatrixView<const double> centred_targets, const Problem& problem, FitReport& report);

}  // namespace headlens::training
