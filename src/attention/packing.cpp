#include "attention/packing.hpp"

#include <algorithm>

namespace headlens {

Matrix<double> pack_theta(const Array& theta) {
  const Index m = theta.dim(0), d = theta.dim(1);
  Matrix<double> out(d, m * d);
  for (Index i = 0; i < m; ++i)
    for (Index a = 0; a < d; ++a)
      std::copy_n(theta.data<double>() + (i * d + a) * d, d, out.data() + a * m * d + i * d);
  return out;
}

Matrix<double> pack_w(const Array& w) {
  Matrix<double> out(w.dim(0) * w.dim(1), w.dim(2));
  std::copy_n(w.data<double>(), w.size(), out.data());
  return out;
}

AttentionLayer unpack_layer(MatrixView<const double> theta, MatrixView<const double> w) {
  const Index d = theta.rows, m = theta.cols / d, e = w.cols;
  AttentionLayer layer{Array(DType::f64, {m, d, d}), Array(DType::f64, {m, d, e})};
  for (Index i = 0; i < m; ++i)
    for (Index a = 0; a < d; ++a) {
      std::copy_n(theta.row(a) + i * d, d, layer.theta.data<double>() + (i * d + a) * d);
      std::copy_n(w.row(i * d + a), e, layer.w.data<double>() + (i * d + a) * e);
    }
  return layer;
}

}  // namespace headlens
