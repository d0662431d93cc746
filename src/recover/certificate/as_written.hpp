// The last test of a layer: as it is written, in the coordinates of the user, it predicts the held-out
// labels. All tests before look at the heads in the coordinates of the search, and cannot see what is lost on
// the way out of these.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// |F - Y| / |Y| of these held-out examples, as the user gave them, for the layer of a recovery.
double written_error(const Recovery& recovery, const Split& given, const Effort& effort,
                     const Execution& execution);

// Withholds a certified layer that leaves more of the held-out labels than its certificate says: more than
// the eighth digit and rounding (Effort::rounding) explain. The status is not_identified then.
void test_as_written(const Examples& given, const Effort& effort, const Execution& execution,
                     Recovery& recovery);

}  // namespace headlens::recovery
