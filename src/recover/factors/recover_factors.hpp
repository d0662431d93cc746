// Recovery in the layer's own factors: whiten, descend, polish, reduce, challenge. For layers whose heads
// have a rank far below d, which includes every transformer: with r = d / m the factors have 4 d^2 unknowns,
// Theta and W have 2 m d^2.
#pragma once

#include "recover/candidate.hpp"
#include "recover/unit_scales.hpp"

namespace headlens::recovery {

bool wants_factors(const RecoverOptions& options, Index dim);

// False if the heads were not found and the dense method should be asked: nothing is written then but trials,
// phases and counts.
bool recover_factors(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                     Recovery& recovery);

}  // namespace headlens::recovery
