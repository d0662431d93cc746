#include "headlens/span.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/slice.hpp"

namespace headlens {
namespace {

constexpr double kNothing = 1e-14;  // of the largest eigenvalue: outside the span, as in the recovery

// The tokens that are no padding, one a row.
Matrix<double> rows_of(const Tokens& tokens) {
  const Index n = tokens.x.dim(0), k = tokens.x.dim(1), d = tokens.x.dim(2);
  Index rows = n * k;
  if (!tokens.lengths.empty()) {
    rows = 0;
    for (const Index length : tokens.lengths) rows += length;
  }
  Matrix<double> out(rows, d);
  Index to = 0;
  for (Index i = 0; i < n; ++i) {
    const Index own = tokens.lengths.empty() ? k : tokens.lengths[static_cast<std::size_t>(i)];
    for (Index t = 0; t < own; ++t, ++to)
      for (Index j = 0; j < d; ++j) out(to, j) = tokens.x.at((i * k + t) * d + j);
  }
  return out;
}

std::vector<double> take_mean_off(Matrix<double>& x) {
  std::vector<double> mean(static_cast<std::size_t>(x.cols()), 0.0);
  for (Index i = 0; i < x.rows(); ++i)
    for (Index j = 0; j < x.cols(); ++j)
      mean[static_cast<std::size_t>(j)] += x(i, j) / static_cast<double>(x.rows());
  for (Index i = 0; i < x.rows(); ++i)
    for (Index j = 0; j < x.cols(); ++j) x(i, j) -= mean[static_cast<std::size_t>(j)];
  return mean;
}

// B^T A of every head.
Array turned(MatrixView<const double> basis, const Array& a) {
  Array out(DType::f64, {a.dim(0), basis.cols, a.dim(2)});
  for (Index i = 0; i < a.dim(0); ++i)
    gemm(Trans::yes, Trans::no, 1.0, basis, slice(a, i), 0.0, slice(out, i));
  return out;
}

}  // namespace

TokenSpan span_of(const Tokens& tokens, const LayerVariant& variant, const Execution& execution) {
  Matrix<double> x = rows_of(tokens);
  const Index d = x.cols();
  require(x.rows() > 0, "tokens: none given");
  TokenSpan out{std::vector<double>(static_cast<std::size_t>(d), 0.0), {}};
  if (variant.bias && !variant.rotary) out.mean = take_mean_off(x);
  Matrix<double> moment = Matrix<double>::zeros(d, d);
  add_inner(std::as_const(x).view(), moment.view(), thread_count(execution));
  const SymmetricEigen eigen = symmetric_eigen(std::as_const(moment).view());
  require(eigen.ok() && eigen.values.back() > 0, "tokens: all of them are the same, and span nothing");
  Index first = 0;  // eigenvalues rise
  while (!(eigen.values[static_cast<std::size_t>(first)] > kNothing * eigen.values.back())) ++first;
  out.basis = Array(DType::f64, {d, d - first});
  for (Index j = first; j < d; ++j)
    for (Index i = 0; i < d; ++i) out.basis.data<double>()[i * (d - first) + j - first] = eigen.vectors(j, i);
  return out;
}

AttentionLayer on_span(const AttentionLayer& layer, const TokenSpan& span) {
  const Index m = layer.heads(), d = layer.dim(), s = span.dimension(), e = layer.outputs();
  require(span.basis.dim(0) == d, "tokens: of ", span.basis.dim(0), " coordinates, expected ", d,
          " as the layers have");
  const MatrixView<const double> basis(span.basis.data<double>(), d, s);
  AttentionLayer out{{}, turned(basis, layer.w), layer.variant};
  if (layer.variant.rotary) {
    out.q = turned(basis, layer.q), out.k = turned(basis, layer.k);
  } else {
    const Array left = turned(basis, layer.theta);
    out.theta = Array(DType::f64, {m, s, s});
    for (Index i = 0; i < m; ++i)
      gemm(Trans::no, Trans::no, 1.0, slice(left, i), basis, 0.0, slice(out.theta, i));
  }
  if (!layer.variant.bias) return out;
  out.query_bias = Array(DType::f64, {m, s});
  out.constant = layer.constant;
  const MatrixView<const double> mean(span.mean.data(), 1, d);
  for (Index i = 0; i < m; ++i) {
    Matrix<double> u(1, d);
    for (Index j = 0; j < d; ++j) u(0, j) = layer.query_bias.data<double>()[i * d + j];
    if (!layer.variant.rotary) gemm(Trans::no, Trans::no, 1.0, mean, slice(layer.theta, i), 1.0, u.view());
    gemm(Trans::no, Trans::no, 1.0, std::as_const(u).view(), basis, 0.0,
         {out.query_bias.data<double>() + i * s, 1, s});
    gemm(Trans::no, Trans::no, 1.0, mean, slice(layer.w, i), 1.0, {out.constant.data<double>(), 1, e});
  }
  return out;
}

double function_error(const AttentionLayer& a, const AttentionLayer& b, const Tokens& tokens,
                      const Execution& execution) {
  const Array f = apply_layer(a, tokens, execution), g = apply_layer(b, tokens, execution);
  double error = 0, size = 0;
  for (Index i = 0; i < g.size(); ++i) {
    const double apart = f.data<double>()[i] - g.data<double>()[i];
    error += apart * apart, size += g.data<double>()[i] * g.data<double>()[i];
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

}  // namespace headlens
