// A linear map on several vectors at once: out = A in, both n x q with one vector per column.
#pragma once

#include <functional>

#include "linalg/matrix.hpp"

namespace headlens {

using BlockOperator = std::function<void(MatrixView<const double> in, MatrixView<double> out)>;

}  // namespace headlens
