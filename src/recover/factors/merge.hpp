// Surplus heads after descent. Descent with more heads than the layer has ends with several of them on one
// true head: equal Theta, and W in parts that add up. Such heads become one,
//
//   Theta = sum_i |W_i| Theta_i / sum_i |W_i|,     W = sum_i W_i,
//
// cut to the rank they had. Heads with hardly any W are dropped. Which of the others are one is seen from the
// held-out error that a layer with fewer heads has.
#pragma once

#include <functional>
#include <optional>

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

using HeldOutError = std::function<double(const Factors&)>;

// wanted: how many heads there are to be, if that is known. More are merged or dropped until so many are
// left; without it, as long as the held-out error hardly grows.
Factors merge_heads(const Factors& factors, std::optional<Index> wanted, const HeldOutError& error);

}  // namespace headlens::recovery
