// Eigenvectors of many symmetric matrices on the device.
#pragma once

#include "cuda/device.hpp"

namespace headlens::cuda {

// a (count, size, size): the matrices become their eigenvectors, as rows; values (count, size), increasing.
// A matrix without them (not finite) becomes the identity.
void symmetric_eigen(Index count, Index size, float* a, float* values);

}  // namespace headlens::cuda
