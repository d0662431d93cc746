#include "match/evaluate.hpp"

#include <cmath>
#include <limits>

#include "linalg/blas.hpp"
#include "linalg/slice.hpp"

namespace headlens::matching {
namespace {

Matrix<double> product(MatrixView<const double> a, MatrixView<const double> b, Trans trans_b = Trans::no) {
  Matrix<double> out(a.rows, trans_b == Trans::no ? b.cols : b.rows);
  gemm(Trans::no, trans_b, 1.0, a, b, 0.0, out);
  return out;
}

// Rows plus a bias, each turned by its place where there are rotary positions.
void turn(const LayerHeads& layer, const Array& bias, Index h, MatrixView<double> rows) {
  const Index r = rows.cols;
  for (Index a = 0; a < rows.rows && !bias.empty(); ++a)
    for (Index c = 0; c < r; ++c) rows(a, c) += bias.data<double>()[h * r + c];
  if (!layer.rotary) return;
  for (Index j = 0; j < layer.rotary->pairs(r); ++j) {
    const auto [p, q] = layer.rotary->columns(j, r);
    const double frequency = layer.rotary->frequency(j, r);
    for (Index a = 0; a < rows.rows; ++a) {
      const double c = std::cos(static_cast<double>(a) * frequency),
                   s = std::sin(static_cast<double>(a) * frequency);
      const double x = rows(a, p), y = rows(a, q);
      rows(a, p) = x * c - y * s, rows(a, q) = x * s + y * c;
    }
  }
}

Matrix<double> logits_of(const LayerHeads& layer, Index h, MatrixView<const double> x) {
  if (layer.k.empty()) return product(product(x, slice(layer.q, h)), x, Trans::yes);
  Matrix<double> q = product(x, slice(layer.q, h)), k = product(x, slice(layer.k, h));
  turn(layer, layer.turned_query, h, q);
  turn(layer, layer.turned_key, h, k);
  return product(q, k, Trans::yes);
}

void softmax(MatrixView<double> row, Index seen) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (Index b = 0; b < seen; ++b) largest = std::max(largest, row(0, b));
  for (Index b = 0; b < seen; ++b) sum += row(0, b) = std::exp(row(0, b) - largest);
  for (Index b = 0; b < row.cols; ++b) row(0, b) = b < seen ? row(0, b) / sum : 0;
}

}  // namespace

Matrix<double> attention_of(const LayerHeads& layer, Index h, const View& view) {
  const Index k = view.x.rows, d = layer.dim();
  Matrix<double> p = logits_of(layer, h, view.x);
  if (!layer.query_bias.empty())
    for (Index b = 0; b < k; ++b) {
      double sum = 0;
      for (Index c = 0; c < d; ++c) sum += layer.query_bias.data<double>()[h * d + c] * view.x(b, c);
      for (Index a = 0; a < k; ++a) p(a, b) += sum;
    }
  for (Index a = 0; a < k; ++a)
    softmax(p.view().block(a, 0, 1, k), view.causal ? std::min(a + 1, view.length) : view.length);
  return p;
}

Matrix<double> values_of(const LayerHeads& layer, Index h, MatrixView<const double> x) {
  return product(x, slice(layer.v, h));
}

void add_output(const LayerHeads& layer, Index h, MatrixView<const double> a, MatrixView<double> y) {
  if (!layer.o.empty()) return gemm(Trans::no, Trans::no, 1.0, a, slice(layer.o, h), 1.0, y);
  for (Index i = 0; i < y.rows; ++i)
    for (Index j = 0; j < y.cols; ++j) y(i, j) += a(i, j);
}

Matrix<double> outputs_of(const LayerHeads& layer, const View& view) {
  Matrix<double> y = Matrix<double>::zeros(view.x.rows, layer.outputs());
  for (Index h = 0; h < layer.heads(); ++h)
    add_output(layer, h, product(attention_of(layer, h, view), values_of(layer, h, view.x)), y);
  if (!layer.constant.empty())
    for (Index a = 0; a < y.rows(); ++a)
      for (Index c = 0; c < y.cols(); ++c) y(a, c) += layer.constant.data<double>()[c];
  return y;
}

}  // namespace headlens::matching
