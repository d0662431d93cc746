// The CUDA back end.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cuda {

backend::Backend& machine();

}  // namespace headlens::cuda
