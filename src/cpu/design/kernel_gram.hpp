// The kernel matrix of the training sets as a Gram matrix.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cpu {

backend::KernelGram make_kernel_gram(const backend::FeatureSource& source, MatrixView<const double> targets,
                                     const backend::Context& context);

}  // namespace headlens::cpu
