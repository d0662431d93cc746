// Over how many examples the preconditioner takes its moments.
#pragma once

#include <algorithm>

#include "headlens/array.hpp"

namespace headlens::backend {

// A moment of d coordinates from s tokens has eigenvalues that are spread by ((1 + c) / (1 - c))^2 around
// those it should have, c^2 = d / s: by a hundred at d = 1024 with 1536 tokens, by three with twelve per
// coordinate.
inline Index sampled_examples(Index dim, Index tokens) {
  constexpr Index kFewest = 96, kTokensPerCoordinate = 12;
  return std::max(kFewest, kTokensPerCoordinate * dim / tokens);
}

}  // namespace headlens::backend
