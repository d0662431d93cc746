// A solution in the order of the feature map becomes a model in the order of the file.
#pragma once

#include "features/feature_map.hpp"
#include "fit/problem.hpp"

namespace headlens {

// The intercept is offset - means^T V, with V as it will be stored, rounded.
template <class T>
Model trained_model(const Problem& problem, const FeatureMap<T>& map, Array heads,
                    const std::vector<double>& means, const Solution& solution);

}  // namespace headlens
