// Recovery of layers with a mask, biases, rotary positions or padding: whiten, search, prove.
#pragma once

#include "recover/candidate.hpp"
#include "recover/factors/whiten.hpp"
#include "recover/unit_scales.hpp"

namespace headlens::recovery {

// Are the options or the examples not those of a plain layer?
bool wants_variant(const RecoverOptions& options, const Examples& examples);

// Whitened tokens, in coordinates of their span where they do not span all directions.
Whitening variant_whitening(const Split& split, int threads);

// Do the tokens of a plain layer lie in a subspace, or have a covariance so far from one that the search
// needs them whitened?
bool takes_uneven(const RecoverOptions& options, const Split& split, int threads);

void recover_variant(const Examples& scaled, const Split& split, const Units& units,
                     const RecoverOptions& options, Effort& effort, Recovery& recovery);

}  // namespace headlens::recovery
