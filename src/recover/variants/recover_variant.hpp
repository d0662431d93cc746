// Recovery of layers with a mask, biases, rotary positions or padding: whiten, search, prove.
#pragma once

#include "recover/candidate.hpp"
#include "recover/factors/whiten.hpp"
#include "recover/unit_scales.hpp"

namespace headlens::recovery {

// Is every entry of Theta an unknown, of a layer that is not plain or of which labels are missing? Layers
// that are looked for in factors are not these.
bool wants_variant(const RecoverOptions& options, const Examples& examples);

// Whitened tokens, in coordinates of their span where they do not span all directions.
Whitening variant_whitening(const Split& split, int threads);

void recover_variant(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                     Recovery& recovery);

// Plain layers whose tokens lie in a subspace, or have very different sizes in different directions: found in
// coordinates in which all are one. False where the tokens are others, or where nothing was found: nothing is
// written then.
bool recover_uneven(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                    Recovery& recovery);

}  // namespace headlens::recovery
