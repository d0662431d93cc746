// Sets of several files or ranks one after the other.
#pragma once

#include <vector>

#include "headlens/sets.hpp"

namespace headlens {

// Rectangular if all have one number of keys, else ragged; sequences stay sequences. The parts have one dim,
// one type of tokens and one number of outputs, and are used up. The first one's name.
LabelledSets concatenate(std::vector<LabelledSets> parts);

}  // namespace headlens
