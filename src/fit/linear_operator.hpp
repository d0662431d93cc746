// A matrix known only by what it does to a block of columns: out = K in. `in` and `out` never overlap.
#pragma once

#include <functional>

#include "linalg/matrix.hpp"

namespace headlens {

using LinearOperator = std::function<void(MatrixView<const double> in, MatrixView<double> out)>;

}  // namespace headlens
