// Heads of two layers, one to one, so that the sum of their errors is smallest.
#pragma once

#include <functional>

#include "headlens/layer.hpp"

namespace headlens {

using ErrorsOfPair = std::function<HeadMatch(Index a, Index b)>;

// Of layers of so many heads. The worst error is infinite where the numbers differ.
Comparison pair_heads(Index heads_a, Index heads_b, const ErrorsOfPair& errors);

}  // namespace headlens
