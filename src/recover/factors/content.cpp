#include "recover/factors/content.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

double dot(MatrixView<const double> a, Index i, MatrixView<const double> b, Index j) {
  double out = 0;
  for (Index row = 0; row < a.rows; ++row) out += a(row, i) * b(row, j);
  return out;
}

// Re <q_a k_a^*, q_b k_b^*> = Re (q_a^* q_b) (k_b^* k_a) of one pair.
double pair_product(const HeadFactors& a, const HeadFactors& b, std::pair<Index, Index> pair) {
  const auto [i, j] = pair;
  const double q_real = dot(a.q, i, b.q, i) + dot(a.q, j, b.q, j),
               q_imaginary = dot(a.q, i, b.q, j) - dot(a.q, j, b.q, i),
               k_real = dot(a.k, i, b.k, i) + dot(a.k, j, b.k, j),
               k_imaginary = dot(b.k, i, a.k, j) - dot(b.k, j, a.k, i);
  return q_real * k_real - q_imaginary * k_imaginary;
}

// The columns that are not turned.
MatrixView<const double> still(MatrixView<const double> a, Index first) {
  return a.block(0, first, a.rows, a.cols - first);
}

Matrix<double> taken(MatrixView<const double> a, std::pair<Index, Index> pair) {
  Matrix<double> out(a.rows, 2);
  for (Index row = 0; row < a.rows; ++row) {
    out(row, 0) = a(row, pair.first);
    out(row, 1) = a(row, pair.second);
  }
  return out;
}

// B of a pair of keys.
Matrix<double> keys_of(MatrixView<const double> k, std::pair<Index, Index> pair) {
  Matrix<double> out(2 * k.rows, 2);
  for (Index row = 0; row < k.rows; ++row) {
    out(row, 0) = k(row, pair.first);
    out(row, 1) = k(row, pair.second);
    out(k.rows + row, 0) = -k(row, pair.second);
    out(k.rows + row, 1) = k(row, pair.first);
  }
  return out;
}

double column_squares(MatrixView<const double> a, Index column) { return dot(a, column, a, column); }

}  // namespace

double theta_product(const HeadFactors& a, const HeadFactors& b) {
  if (a.pairs() == 0) return factored_product(a.q, a.k, b.q, b.k);
  double out = 0;
  for (Index j = 0; j < a.pairs(); ++j) out += pair_product(a, b, a.rotary->columns(j, a.q.cols));
  const Index first = 2 * a.pairs();
  if (first < a.q.cols)
    out += factored_product(still(a.q, first), still(a.k, first), still(b.q, first), still(b.k, first));
  return out;
}

double theta_norm(const HeadFactors& head) { return std::sqrt(std::max(0.0, theta_product(head, head))); }

double theta_cosine(const HeadFactors& a, const HeadFactors& b) {
  if (a.q.cols == 0 && b.q.cols == 0) return 1;  // both take the plain mean
  if (a.q.cols == 0 || b.q.cols == 0) return 0;
  const double sizes = theta_norm(a) * theta_norm(b);
  return sizes > 0 ? theta_product(a, b) / sizes : 0;
}

double largest_singular_value(const HeadFactors& head) {
  double largest = 0;
  for (Index j = 0; j < head.pairs(); ++j) {
    const auto [one, other] = head.rotary->columns(j, head.q.cols);
    largest = std::max(largest, column_squares(head.k, one) + column_squares(head.k, other));
  }
  for (Index j = 2 * head.pairs(); j < head.k.cols; ++j)
    largest = std::max(largest, column_squares(head.k, j));
  return largest;
}

double product_of(const Products& x, const Products& y) {
  double out = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    out += factored_product(x[i].a.view(), x[i].b.view(), y[i].a.view(), y[i].b.view());
  return out;
}

Products content_error(const Factors& factors, MatrixView<const double> direction, Index head) {
  const backend::HeadColumns c = backend::columns_of(factors.ranks)[static_cast<std::size_t>(head)];
  const HeadFactors h = head_of(factors, head);
  const MatrixView<const double> dq = direction.block(0, c.q, direction.rows, c.logits),
                                 dk = direction.block(0, c.k, direction.rows, c.logits);
  Products out;
  for (Index j = 0; j < h.pairs(); ++j) {
    const std::pair<Index, Index> pair = h.rotary->columns(j, h.q.cols);
    out.push_back({side_by_side(taken(dq, pair), taken(h.q, pair)),
                   side_by_side(keys_of(h.k, pair), keys_of(dk, pair))});
  }
  const Index first = 2 * h.pairs();
  if (first < h.q.cols || h.pairs() == 0)
    out.push_back({side_by_side(still(dq, first), still(h.q, first)),
                   side_by_side(still(h.k, first), still(dk, first))});
  return out;
}

Products w_error(const Factors& factors, MatrixView<const double> direction, MatrixView<const double> o,
                 Index head) {
  const backend::HeadColumns c = backend::columns_of(factors.ranks)[static_cast<std::size_t>(head)];
  const HeadFactors h = head_of(factors, head);
  Products out;
  out.push_back({side_by_side(direction.block(0, c.v, direction.rows, c.values), h.v),
                 side_by_side(transposed(h.o).view(), transposed(o.block(c.o, 0, c.values, o.cols)).view())});
  return out;
}

}  // namespace headlens::recovery
