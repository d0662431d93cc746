// Examples of different lengths without padding in a file: X (total, d), Y (total, e) and `offsets` (n + 1),
// where example i has the rows offsets[i] to offsets[i + 1] - 1.
#pragma once

#include "headlens/arrays.hpp"
#include "headlens/execution.hpp"

namespace headlens {

// X, Y and `observed` become arrays of padded examples, with `lengths`. Files without offsets, or with X (n,
// k, d), stay as they are.
void pad_ragged(NamedArrays& arrays, const std::string& name, const Execution& execution);

}  // namespace headlens
