// Kernels as the seam asks for them.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cpu {

std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                   const FeatureOptions& features, bool exact,
                                                   const backend::Context& context);
std::unique_ptr<backend::HeadProducts> make_head_products(const Sets& a, const Sets* b,
                                                          const FeatureOptions& features, const Array& heads,
                                                          const backend::Context& context);

}  // namespace headlens::cpu
