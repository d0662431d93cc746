// Recovery of layers with a mask, biases, rotary positions or padding: whiten, search, prove.
#pragma once

#include "recover/candidate.hpp"
#include "recover/unit_scales.hpp"

namespace headlens::recovery {

// Are the options or the examples not those of a plain layer?
bool wants_variant(const RecoverOptions& options, const Examples& examples);

void recover_variant(const Examples& scaled, const Split& split, const Units& units,
                     const RecoverOptions& options, Effort& effort, Recovery& recovery);

}  // namespace headlens::recovery
