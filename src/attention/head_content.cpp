#include "attention/head_content.hpp"

#include <algorithm>
#include <cmath>

namespace headlens {
namespace {

// out += a b^T, b times a sign.
void add_outer(MatrixView<const double> a, Index column_a, MatrixView<const double> b, Index column_b,
               double sign, double* out) {
  const Index d = b.rows;
  for (Index p = 0; p < d; ++p)
    for (Index q = 0; q < d; ++q) out[p * d + q] += sign * a(p, column_a) * b(q, column_b);
}

// Of Q in one matrix of parameters and K in another.
std::vector<double> rotary_content(const VariantShape& shape, MatrixView<const double> queries,
                                   MatrixView<const double> keys, Index head) {
  const Rotary& rotary = *shape.variant.rotary;
  const Index d = shape.dim, r = shape.rank, pairs = rotary.pairs(r), size = d * d;
  const Index q = head * r, k = (shape.heads + head) * r;
  const Index parts = 2 * pairs + (2 * pairs < r ? 1 : 0);
  std::vector<double> out(static_cast<std::size_t>(parts * size + d * shape.bias()));
  for (Index j = 0; j < pairs; ++j) {
    const auto [first, second] = rotary.columns(j, r);
    double *even = out.data() + 2 * j * size, *odd = even + size;
    add_outer(queries, q + first, keys, k + first, 1, even);
    add_outer(queries, q + second, keys, k + second, 1, even);
    add_outer(queries, q + first, keys, k + second, 1, odd);
    add_outer(queries, q + second, keys, k + first, -1, odd);
  }
  for (Index j = 2 * pairs; j < r; ++j)
    add_outer(queries, q + j, keys, k + j, 1, out.data() + 2 * pairs * size);
  return out;
}

}  // namespace

std::vector<double> content_of(const VariantShape& shape, MatrixView<const double> parameters, Index head) {
  const Index d = shape.dim;
  if (shape.rotary()) {
    std::vector<double> out = rotary_content(shape, parameters, parameters, head);
    for (Index q = 0; q < d && shape.variant.bias; ++q)
      out[out.size() - static_cast<std::size_t>(d - q)] = parameters(q, 2 * shape.heads * shape.rank + head);
    return out;
  }
  std::vector<double> out;
  for (Index q = 0; q < shape.rows(); ++q)
    out.insert(out.end(), parameters.row(q) + head * d, parameters.row(q) + (head + 1) * d);
  return out;
}

std::vector<double> content_change(const VariantShape& shape, MatrixView<const double> parameters,
                                   MatrixView<const double> direction, Index head) {
  if (!shape.rotary()) return content_of(shape, direction, head);
  std::vector<double> out = rotary_content(shape, direction, parameters, head);
  const std::vector<double> other = rotary_content(shape, parameters, direction, head);
  std::transform(out.begin(), out.end(), other.begin(), out.begin(), std::plus<>());
  for (Index q = 0; q < shape.dim && shape.variant.bias; ++q)
    out[out.size() - static_cast<std::size_t>(shape.dim - q)] =
        direction(q, 2 * shape.heads * shape.rank + head);
  return out;
}

double norm_of(const std::vector<double>& content) {
  double squares = 0;
  for (const double value : content) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace headlens
