// Matrix i of an array (n, rows, cols) of float64.
#pragma once

#include "headlens/array.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

inline MatrixView<const double> slice(const Array& array, Index i) {
  return {array.data<double>() + i * array.dim(1) * array.dim(2), array.dim(1), array.dim(2)};
}
inline MatrixView<double> slice(Array& array, Index i) {
  return {array.data<double>() + i * array.dim(1) * array.dim(2), array.dim(1), array.dim(2)};
}

}  // namespace headlens
