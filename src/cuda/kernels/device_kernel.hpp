// Kernels as the seam asks for them.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cuda {

std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                   const FeatureOptions& features,
                                                   const backend::Context& context);
backend::KernelGram make_kernel_gram(const backend::FeatureSource& source, MatrixView<const double> targets,
                                     const backend::Context& context);

}  // namespace headlens::cuda
