// Between the arrays of a layer and the matrices of VariantMap.
#include <algorithm>

#include "attention/packing.hpp"
#include "attention/variant_map.hpp"

namespace headlens {
namespace {

// (m, d, r) side by side in `to` (d, ..) from a column on, or back.
void copy_in(const Array& from, Index column, Matrix<double>& to) {
  const Index m = from.dim(0), d = from.dim(1), r = from.dim(2);
  for (Index i = 0; i < m; ++i)
    for (Index q = 0; q < d; ++q)
      std::copy_n(from.data<double>() + (i * d + q) * r, r, to.view().row(q) + column + i * r);
}

Array copy_out(MatrixView<const double> from, Index column, Index m, Index d, Index r) {
  Array out(DType::f64, {m, d, r});
  for (Index i = 0; i < m; ++i)
    for (Index q = 0; q < d; ++q)
      std::copy_n(from.row(q) + column + i * r, r, out.data<double>() + (i * d + q) * r);
  return out;
}

}  // namespace

VariantShape shape_of(const AttentionLayer& layer) {
  return {layer.variant, layer.dim(), layer.heads(), layer.variant.rotary ? layer.q.dim(2) : 0};
}

Matrix<double> pack_parameters(const AttentionLayer& layer) {
  const VariantShape shape = shape_of(layer);
  const Index m = shape.heads, d = shape.dim;
  Matrix<double> out(shape.rows(), shape.columns());
  const double* u = layer.variant.bias ? layer.query_bias.data<double>() : nullptr;
  if (!shape.rotary()) {
    copy_in(layer.theta, 0, out);
    if (u) std::copy_n(u, m * d, out.view().row(d));
    return out;
  }
  copy_in(layer.q, 0, out);
  copy_in(layer.k, m * shape.rank, out);
  for (Index i = 0; i < m && u; ++i)
    for (Index q = 0; q < d; ++q) out(q, 2 * m * shape.rank + i) = u[i * d + q];
  return out;
}

Matrix<double> pack_readout(const AttentionLayer& layer) {
  const Index features = layer.heads() * layer.dim(), e = layer.outputs();
  Matrix<double> out(features + (layer.variant.bias ? 1 : 0), e);
  std::copy_n(layer.w.data<double>(), features * e, out.data());
  if (layer.variant.bias) std::copy_n(layer.constant.data<double>(), e, out.view().row(features));
  return out;
}

AttentionLayer unpack_layer(const VariantShape& shape, MatrixView<const double> parameters,
                            MatrixView<const double> readout) {
  const Index m = shape.heads, d = shape.dim, e = readout.cols;
  AttentionLayer out{Array(), Array(DType::f64, {m, d, e})};
  out.variant = shape.variant;
  copy_rows(readout.block(0, 0, m * d, e), MatrixView<double>(out.w.data<double>(), m * d, e));
  if (shape.rotary()) {
    out.q = copy_out(parameters, 0, m, d, shape.rank);
    out.k = copy_out(parameters, m * shape.rank, m, d, shape.rank);
  } else {
    out.theta = copy_out(parameters, 0, m, d, d);
  }
  if (!shape.variant.bias) return out;
  out.query_bias = Array(DType::f64, {m, d});
  out.constant = Array(DType::f64, {e});
  for (Index i = 0; i < m; ++i)
    for (Index q = 0; q < d; ++q)
      out.query_bias.data<double>()[i * d + q] =
          shape.rotary() ? parameters(q, 2 * m * shape.rank + i) : parameters(d, i * d + q);
  std::copy_n(readout.row(m * d), e, out.constant.data<double>());
  return out;
}

}  // namespace headlens
