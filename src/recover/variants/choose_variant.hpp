// What the layer has beyond its heads, where that is not known: usual variants are tried, each by a few
// starts on the first examples, and the simplest that explains the held-out labels is taken; the nearest, if
// none does.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// Sets mask, bias and rotary of the options; the certificate lists what was tried.
void choose_variant(const Split& split, Effort& effort, RecoverOptions& options, Certificate& certificate);

}  // namespace headlens::recovery
