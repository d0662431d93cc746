#include "match/form_stack.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/qr.hpp"
#include "linalg/slice.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::matching {
namespace {

// |L R^T|^2, by QR where L and R are tall: a difference of nearly equal products keeps its digits.
double product_norm(Matrix<double> left, Matrix<double> right) {
  const Index rank = left.cols();
  if (left.rows() >= rank) left = transposed(TallQr(std::move(left)).factor());
  if (right.rows() >= rank) right = transposed(TallQr(std::move(right)).factor());
  Matrix<double> product(left.rows(), right.rows());
  gemm(Trans::no, Trans::yes, 1.0, left, right, 0.0, product);
  return squared_norm(product);
}

// Columns of a factor, each with a sign.
using Columns = std::vector<std::pair<Index, double>>;

Matrix<double> side_by_side(MatrixView<const double> a, const Columns& of_a, MatrixView<const double> b,
                            const Columns& of_b, double sign) {
  Matrix<double> out(a.rows, static_cast<Index>(of_a.size() + of_b.size()));
  Index to = 0;
  const auto add = [&](MatrixView<const double> from, const Columns& columns, double factor) {
    for (const auto& [column, own] : columns) {
      for (Index i = 0; i < from.rows; ++i) out(i, to) = factor * own * from(i, column);
      ++to;
    }
  };
  add(a, of_a, 1);
  add(b, of_b, sign);
  return out;
}

std::vector<bool> turned_columns(const FormStack& s) {
  std::vector<bool> turned(static_cast<std::size_t>(s.rank), false);
  for (const auto& [a, b] : s.planes)
    turned[static_cast<std::size_t>(a)] = turned[static_cast<std::size_t>(b)] = true;
  return turned;
}

Columns plain_columns(const FormStack& s) {
  const std::vector<bool> turned = turned_columns(s);
  Columns out;
  for (Index j = 0; j < s.rank; ++j)
    if (!turned[static_cast<std::size_t>(j)]) out.emplace_back(j, 1.0);
  return out;
}

// Of plane j: the columns whose product with the keys is the real part of q k^*, and those of the imaginary
// part.
struct PlaneColumns {
  Columns real, imaginary, keys;
};
PlaneColumns plane_columns(const FormStack& s, std::size_t j) {
  if (j >= s.planes.size()) return {};
  const auto [a, b] = s.planes[j];
  return {{{a, 1}, {b, 1}}, {{b, 1}, {a, -1}}, {{a, 1}, {b, 1}}};
}

// <F, F'> from G = L^T L' and H = R^T R' (rank, rank'): ordinary columns, then planes. For q = q_a + i q_b
// and k likewise, <q k^*, q' k'^*> = Re (q^* q') (k'^* k).
double inner_product(const FormStack& a, const FormStack& b, MatrixView<const double> g,
                     MatrixView<const double> h) {
  double sum = 0;
  const std::vector<bool> skip_a = turned_columns(a), skip_b = turned_columns(b);
  for (Index p = 0; p < a.rank; ++p)
    for (Index q = 0; q < b.rank; ++q)
      if (!skip_a[static_cast<std::size_t>(p)] && !skip_b[static_cast<std::size_t>(q)])
        sum += g(p, q) * h(p, q);
  for (std::size_t j = 0; j < std::min(a.planes.size(), b.planes.size()); ++j) {
    const auto [p, q] = a.planes[j];
    const auto [s, t] = b.planes[j];
    sum += (g(p, s) + g(q, t)) * (h(p, s) + h(q, t)) + (g(p, t) - g(q, s)) * (h(p, t) - h(q, s));
  }
  return sum;
}

FormStack dense_theta(const LayerHeads& layer) {
  const Index m = layer.heads(), d = layer.dim(), rows = d + 1;
  FormStack out{.heads = m, .rows = rows, .cols = rows, .left = Matrix<double>::zeros(m, rows * rows)};
  for (Index i = 0; i < m; ++i) {
    const MatrixView<double> form(out.left.view().row(i), rows, rows);
    copy_rows(slice(layer.q, i), form.block(0, 0, d, d));
    if (!layer.query_bias.empty()) std::copy_n(layer.query_bias.data<double>() + i * d, d, form.row(d));
  }
  return out;
}

}  // namespace

FormStack theta_forms(const LayerHeads& layer) {
  if (layer.k.empty()) return dense_theta(layer);
  const Index m = layer.heads(), d = layer.dim(), r = layer.q.dim(2);
  const bool bias = !layer.query_bias.empty();
  FormStack out{.heads = m, .rows = d + 1, .cols = d + 1, .rank = r + (bias ? 1 : 0)};
  out.left = Matrix<double>::zeros(d + 1, m * out.rank);
  out.right = Matrix<double>::zeros(d + 1, m * out.rank);
  for (Index i = 0; i < m; ++i) {
    copy_rows(slice(layer.q, i), out.left.view().block(0, i * out.rank, d, r));
    copy_rows(slice(layer.k, i), out.right.view().block(0, i * out.rank, d, r));
    if (!layer.turned_query.empty())
      std::copy_n(layer.turned_query.data<double>() + i * r, r, out.left.view().row(d) + i * out.rank);
    if (!layer.turned_key.empty())
      std::copy_n(layer.turned_key.data<double>() + i * r, r, out.right.view().row(d) + i * out.rank);
    if (!bias) continue;
    out.left(d, i * out.rank + r) = 1;
    for (Index a = 0; a < d; ++a) out.right(a, i * out.rank + r) = layer.query_bias.data<double>()[i * d + a];
  }
  if (layer.rotary)
    for (Index j = 0; j < layer.rotary->pairs(r); ++j) out.planes.push_back(layer.rotary->columns(j, r));
  return out;
}

FormStack w_forms(const LayerHeads& layer) {
  const Index m = layer.heads(), d = layer.dim(), e = layer.outputs();
  FormStack out{.heads = m, .rows = d, .cols = e};
  if (layer.o.empty()) {
    out.left = Matrix<double>(m, d * e);
    std::copy_n(layer.v.data<double>(), m * d * e, out.left.data());
    return out;
  }
  out.rank = layer.v.dim(2);
  out.left = Matrix<double>(d, m * out.rank);
  out.right = Matrix<double>(e, m * out.rank);
  for (Index i = 0; i < m; ++i) {
    copy_rows(slice(layer.v, i), out.left.view().block(0, i * out.rank, d, out.rank));
    const MatrixView<const double> o = slice(layer.o, i);
    for (Index a = 0; a < out.rank; ++a)
      for (Index c = 0; c < e; ++c) out.right(c, i * out.rank + a) = o(a, c);
  }
  return out;
}

FormStack multiplied_out(const FormStack& s) {
  FormStack out{
      .heads = s.heads, .rows = s.rows, .cols = s.cols, .left = Matrix<double>(s.heads, s.rows * s.cols)};
  for (Index i = 0; i < s.heads; ++i)
    gemm(Trans::no, Trans::yes, 1.0, s.left_of(i), s.right_of(i), 0.0,
         MatrixView<double>(out.left.view().row(i), s.rows, s.cols));
  return out;
}

Matrix<double> inner_products(const FormStack& a, const FormStack& b, int threads) {
  Matrix<double> out(a.heads, b.heads);
  parallel_for(threads, a.heads, [&](Index i, int) {
    if (a.dense())
      return gemm(Trans::no, Trans::yes, 1.0, a.left.view().block(i, 0, 1, a.left.cols()), b.left, 0.0,
                  out.view().block(i, 0, 1, b.heads));
    Matrix<double> g(a.rank, b.left.cols()), h(a.rank, b.left.cols());
    gemm(Trans::yes, Trans::no, 1.0, a.left_of(i), b.left, 0.0, g);
    gemm(Trans::yes, Trans::no, 1.0, a.right_of(i), b.right, 0.0, h);
    for (Index j = 0; j < b.heads; ++j)
      out(i, j) = inner_product(a, b, g.view().block(0, j * b.rank, a.rank, b.rank),
                                h.view().block(0, j * b.rank, a.rank, b.rank));
  });
  return out;
}

double difference(const FormStack& a, Index i, const FormStack& b, Index j) {
  double sum = 0;
  if (a.dense()) {
    const double *x = a.left.view().row(i), *y = b.left.view().row(j);
    for (Index c = 0; c < a.left.cols(); ++c) sum += (x[c] - y[c]) * (x[c] - y[c]);
    return std::sqrt(sum);
  }
  const auto add = [&](const Columns& left_a, const Columns& left_b, const Columns& right_a,
                       const Columns& right_b) {
    if (!left_a.empty() || !left_b.empty())
      sum += product_norm(side_by_side(a.left_of(i), left_a, b.left_of(j), left_b, 1),
                          side_by_side(a.right_of(i), right_a, b.right_of(j), right_b, -1));
  };
  const Columns plain_a = plain_columns(a), plain_b = plain_columns(b);
  add(plain_a, plain_b, plain_a, plain_b);
  for (std::size_t p = 0; p < std::max(a.planes.size(), b.planes.size()); ++p) {
    const PlaneColumns of_a = plane_columns(a, p), of_b = plane_columns(b, p);
    add(of_a.real, of_b.real, of_a.keys, of_b.keys);
    add(of_a.imaginary, of_b.imaginary, of_a.keys, of_b.keys);
  }
  return std::sqrt(sum);
}

}  // namespace headlens::matching
