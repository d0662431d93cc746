// Fourier coefficients from random inputs: means of F chi_S over the samples.
#pragma once

#include "headlens/fourier.hpp"

namespace headlens {

// Fills the values for the subsets that `fourier` holds, and the half-widths.
void sample_coefficients(const AttentionLayer& layer, const FourierOptions& options, Fourier& fourier,
                         const Execution& execution);

}  // namespace headlens
