// Sets and targets from the arrays of a file, checked as load_labelled_sets does; `file` begins every error.
#pragma once

#include <string>

#include "headlens/arrays.hpp"
#include "headlens/sets.hpp"

namespace headlens {

LabelledSets labelled_sets_from_arrays(NamedArrays arrays, DataLayout layout, const std::string& file);

}  // namespace headlens
