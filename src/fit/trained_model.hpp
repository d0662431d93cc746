// A solution becomes a model.
#pragma once

#include "fit/problem.hpp"

namespace headlens::training {

// values (M D, q) and means (M D) in the order of the model file. The intercept is offset - means^T V, with V
// as it will be stored, rounded.
Model trained_model(const Problem& problem, Array heads, MatrixView<const double> values,
                    const std::vector<double>& means, const Solution& solution);

// Infinitely many heads: f(x) = offset + sum_i K(x, support_i) values_i. Values are stored in double whatever
// the precision of the features: the values are large and of both signs, so that rounding each of them to
// float would change the sum, which is small beside them.
Model kernel_model(const Problem& problem, Support support, MatrixView<const double> values,
                   const std::vector<double>& offset, const FitReport& report);

}  // namespace headlens::training
