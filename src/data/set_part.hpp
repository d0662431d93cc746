// Some of the sets, and of their keys, in main memory, wherever the sets lie.
#pragma once

#include "headlens/sets.hpp"

namespace headlens {

// Every step-th of the sets, the first included, each with its first most_keys keys at most. Of sequences
// their sets, one by one.
Sets part_of(const Sets& sets, Index step, Index most_keys);

}  // namespace headlens
