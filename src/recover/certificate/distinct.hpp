// Examples that say something new. The layer treats the tokens of an example alike, so an example whose
// tokens were seen before, in whatever order, adds no equation; tokens of signs repeat soon.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// Does a held-out example differ from all others, and are its tokens not all of a small vocabulary? If not,
// predicting the held-out examples proves little, and the other examples must be evidence enough by their
// number.
bool held_out_is_fresh(const Split& split, Index heads);

}  // namespace headlens::recovery
