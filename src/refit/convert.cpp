// Between the heads of a layer and TiedLayer.
#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "refit/head_factors.hpp"
#include "refit/starts.hpp"

namespace headlens::refitting {
namespace {

constexpr double kOutside = 1e-9;   // of |u|: more than this outside the span of K gets a column of its own
constexpr double kNothing = 1e-13;  // of the largest singular value of a head

MatrixView<const double> slice(const Array& array, Index i) {
  return {array.data<double>() + i * array.dim(1) * array.dim(2), array.dim(1), array.dim(2)};
}
MatrixView<double> slice(Array& array, Index i) {
  return {array.data<double>() + i * array.dim(1) * array.dim(2), array.dim(1), array.dim(2)};
}

// A = left right^T with as many columns as singular values above rounding.
Product factors_of(MatrixView<const double> a) {
  Matrix<double> one = Matrix<double>::zeros(a.cols, a.cols);
  for (Index i = 0; i < a.cols; ++i) one(i, i) = 1;
  const Svd parts = svd(a);
  require(parts.ok, "refit: the singular values of a head do not converge: its entries are not finite");
  const auto rank = std::count_if(parts.values.begin(), parts.values.end(), [&](double value) {
    return value > kNothing * std::max(parts.values.front(), 1e-300);
  });
  return cut(a, one.view(), std::max<Index>(1, rank));
}

// b with K b = u, and what is left of u.
struct Solved {
  std::vector<double> b, left;
};
Solved solve(MatrixView<const double> k, const double* u) {
  const Svd parts = svd(k);
  Solved out{std::vector<double>(static_cast<std::size_t>(k.cols), 0.0), std::vector<double>(u, u + k.rows)};
  for (Index j = 0; j < static_cast<Index>(parts.values.size()); ++j) {
    const double value = parts.values[static_cast<std::size_t>(j)];
    if (!(value > kNothing * parts.values.front())) continue;
    double along = 0;
    for (Index i = 0; i < k.rows; ++i) along += parts.left(i, j) * u[i];
    for (Index c = 0; c < k.cols; ++c)
      out.b[static_cast<std::size_t>(c)] += along / value * parts.right(j, c);
    for (Index i = 0; i < k.rows; ++i) out.left[static_cast<std::size_t>(i)] -= along * parts.left(i, j);
  }
  return out;
}

double norm(const double* a, Index size) {
  double sum = 0;
  for (Index i = 0; i < size; ++i) sum += a[i] * a[i];
  return std::sqrt(sum);
}

// a with more rows and columns, of zeros.
Matrix<double> padded(MatrixView<const double> a, Index rows, Index cols) {
  Matrix<double> out = Matrix<double>::zeros(rows, cols);
  copy_rows(a, out.view().block(0, 0, a.rows, a.cols));
  return out;
}

// The query bias u becomes the last row of Q, with a column more where K does not reach u.
void add_query_bias(Head& head, const double* u, Index d) {
  const Solved solved = solve(head.k.view().block(0, 0, d, head.k.cols()), u);
  const bool wider = norm(solved.left.data(), d) > kOutside * norm(u, d);
  if (wider) {
    head.q = padded(head.q.view(), head.q.rows(), head.q.cols() + 1);
    head.k = padded(head.k.view(), head.k.rows(), head.k.cols() + 1);
    for (Index i = 0; i < d; ++i) head.k(i, head.k.cols() - 1) = solved.left[static_cast<std::size_t>(i)];
    head.q(d, head.q.cols() - 1) = 1;
  }
  for (std::size_t c = 0; c < solved.b.size(); ++c) head.q(d, static_cast<Index>(c)) = solved.b[c];
}

Head head_from(const LayerHeads& layer, Index i, Index rows) {
  const Index d = layer.dim();
  Head out;
  if (layer.k.empty()) {
    const Product theta = factors_of(slice(layer.q, i));
    out.q = padded(theta.left.view(), rows, theta.left.cols());
    out.k = padded(theta.right.view(), rows, theta.right.cols());
  } else {
    out.q = padded(slice(layer.q, i), rows, layer.q.dim(2));
    out.k = padded(slice(layer.k, i), rows, layer.k.dim(2));
  }
  if (layer.o.empty()) {
    const Product w = factors_of(slice(layer.v, i));
    out.v = padded(w.left.view(), rows, w.left.cols());
    out.o = transposed(w.right.view());
  } else {
    out.v = padded(slice(layer.v, i), rows, layer.v.dim(2));
    out.o = padded(slice(layer.o, i), layer.o.dim(1), layer.o.dim(2));
  }
  if (!layer.query_bias.empty()) add_query_bias(out, layer.query_bias.data<double>() + i * d, d);
  for (const auto& [bias, part] : {std::pair{&layer.turned_query, &out.q}, {&layer.turned_key, &out.k}})
    for (Index c = 0; c < part->cols() && !bias->empty(); ++c)
      (*part)(d, c) = bias->data<double>()[i * part->cols() + c];
  return out;
}

}  // namespace

TiedLayer tied_of(const LayerHeads& layer) {
  require(!layer.rotary || layer.query_bias.empty(),
          "refit: rotary positions turn the query biases of a checkpoint; this layer has query biases that "
          "are not turned");
  TiedLayer like;
  TiedShape& shape = like.shape;
  shape.bias = !layer.query_bias.empty() || !layer.turned_query.empty() || !layer.constant.empty();
  shape.rows = layer.dim() + (shape.bias ? 1 : 0), shape.outputs = layer.outputs();
  shape.mask = layer.mask.value_or(Mask::none), shape.rotary = layer.rotary;
  like.readout = Matrix<double>::zeros(shape.features(), shape.outputs);
  for (Index c = 0; c < shape.outputs && !layer.constant.empty(); ++c)
    like.readout(shape.features() - 1, c) = layer.constant.data<double>()[c];
  std::vector<Head> heads;
  for (Index i = 0; i < layer.heads(); ++i) heads.push_back(head_from(layer, i, shape.rows));
  return assemble(heads, layer.heads(), like);
}

LayerHeads heads_of(const TiedLayer& layer, const std::string& name) {
  const TiedShape& s = layer.shape;
  const Index m = s.heads, d = s.dim(), r = s.rank, e = s.outputs;
  LayerHeads out{.name = name,
                 .q = Array(DType::f64, {m, d, r}),
                 .k = Array(DType::f64, {m, d, r}),
                 .v = Array(DType::f64, {m, d, s.value_rank}),
                 .o = Array(DType::f64, {m, s.value_rank, e}),
                 .rotary = s.rotary,
                 .mask = s.mask};
  if (s.bias) {
    (s.rotary ? out.turned_query : out.query_bias) = Array(DType::f64, {m, s.rotary ? r : d});
    if (s.rotary) out.turned_key = Array(DType::f64, {m, r});
    out.constant = Array(DType::f64, {e});
    std::copy_n(layer.readout.view().row(s.features() - 1), e, out.constant.data<double>());
  }
  const std::vector<Head> heads = heads_in(layer);
  for (Index i = 0; i < m; ++i) {
    const Head& head = heads[static_cast<std::size_t>(i)];
    const auto top = [d](const Matrix<double>& a) { return a.view().block(0, 0, d, a.cols()); };
    copy_rows(top(head.q), slice(out.q, i));
    copy_rows(top(head.k), slice(out.k, i));
    copy_rows(top(head.v), slice(out.v, i));
    copy_rows(head.o.view(), slice(out.o, i));
    if (!s.bias) continue;
    // Value biases are a part of the constant: the weights of a row sum to one.
    gemm(Trans::no, Trans::no, 1.0, head.v.view().block(d, 0, 1, s.value_rank), head.o.view(), 1.0,
         MatrixView<double>(out.constant.data<double>(), 1, e));
    const MatrixView<const double> bias = head.q.view().block(d, 0, 1, r);
    if (s.rotary) {
      copy_rows(bias, {out.turned_query.data<double>() + i * r, 1, r});
      copy_rows(head.k.view().block(d, 0, 1, r), {out.turned_key.data<double>() + i * r, 1, r});
    } else {
      gemm(Trans::no, Trans::yes, 1.0, bias, top(head.k), 0.0,
           MatrixView<double>(out.query_bias.data<double>() + i * d, 1, d));
    }
  }
  return out;
}

}  // namespace headlens::refitting
