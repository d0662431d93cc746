// Between the arrays of a layer, (m, d, d) and (m, d, e), and the matrices of AttentionMap, (d, m d) and (m
// d, e).
#pragma once

#include "headlens/layer.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

Matrix<double> pack_theta(const Array& theta);
Matrix<double> pack_w(const Array& w);
AttentionLayer unpack_layer(MatrixView<const double> theta, MatrixView<const double> w);

}  // namespace headlens
