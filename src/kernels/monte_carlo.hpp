// Kernels without a closed form, from random heads: K is the mean over heads of <phi_m(x), phi_m(x')>.
//
// Heads are summed in kBatches batches. The spread of the batch means around their mean estimates the
// variance of every entry; its root mean square over the entries is the standard error of the result.
#pragma once

#include "headlens/kernel.hpp"

namespace headlens {

constexpr Index kBatches = 16;

// b: nullptr for K(a, a). `options` with the scales filled in; features.heads are drawn from features.seed.
Kernel monte_carlo_kernel(const Sets& a, const Sets* b, const FeatureOptions& options,
                          const Execution& execution);

}  // namespace headlens
