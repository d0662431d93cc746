// A solution in the order of the feature map becomes a model in the order of the file.
#pragma once

#include "features/feature_map.hpp"
#include "fit/problem.hpp"

namespace headlens {

// The intercept is offset - means^T V, with V as it will be stored, rounded.
template <class T>
Model trained_model(const Problem& problem, const FeatureMap<T>& map, Array heads,
                    const std::vector<double>& means, const Solution& solution);

// Infinitely many heads: f(x) = offset + sum_i K(x, support_i) values_i. Values are kept in double: they are
// large and of both signs, and what a rounding of each would do to their sum is not.
Model kernel_model(const Problem& problem, Support support, MatrixView<const double> values,
                   const std::vector<double>& offset, const FitReport& report);

}  // namespace headlens
