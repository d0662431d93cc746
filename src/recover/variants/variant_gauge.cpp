#include "recover/variants/variant_gauge.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kNew = 1e-8;  // share of a direction that is not in the others

}  // namespace

// Orthonormal beside the directions from `own` on, which live in the same columns.
void VariantGauge::add(Direction direction, std::size_t own) {
  const double before = std::sqrt(squared_norm(direction.values));
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t i = own; i < basis_.size(); ++i)
      headlens::add(-inner_product(basis_[i].values, direction.values), basis_[i].values, direction.values);
  const double size = std::sqrt(squared_norm(direction.values));
  if (!(size > kNew * before)) return;  // a combination of the others, but for rounding
  for (Index i = 0; i < direction.values.rows() * direction.values.cols(); ++i)
    direction.values.data()[i] /= size;
  basis_.push_back(std::move(direction));
}

VariantGauge::VariantGauge(const VariantShape& shape, const Matrix<double>& parameters) {
  if (!shape.rotary()) return;
  const Rotary& rotary = *shape.variant.rotary;
  const Index d = shape.dim, r = shape.rank, pairs = rotary.pairs(r), rest = r - 2 * pairs;
  for (Index head = 0; head < shape.heads; ++head) {
    const Index q = head * r, k = (shape.heads + head) * r;
    for (Index j = 0; j < pairs; ++j) {
      const auto [first, second] = rotary.columns(j, r);
      const std::vector<Index> columns{q + first, q + second, k + first, k + second};
      Direction scale{columns, Matrix<double>(d, 4)}, turn{columns, Matrix<double>(d, 4)};
      for (Index a = 0; a < d; ++a) {
        const double q1 = parameters(a, columns[0]), q2 = parameters(a, columns[1]),
                     k1 = parameters(a, columns[2]), k2 = parameters(a, columns[3]);
        const double along[] = {q1, q2, -k1, -k2}, around[] = {-q2, q1, -k2, k1};
        for (Index c = 0; c < 4; ++c) scale.values(a, c) = along[c], turn.values(a, c) = around[c];
      }
      const std::size_t own = basis_.size();
      add(std::move(scale), own);
      add(std::move(turn), own);
    }
    std::vector<Index> columns(static_cast<std::size_t>(2 * rest));
    std::iota(columns.begin(), columns.begin() + rest, q + 2 * pairs);
    std::iota(columns.begin() + rest, columns.end(), k + 2 * pairs);
    const std::size_t own = basis_.size();
    for (Index i = 0; i < rest; ++i)
      for (Index j = 0; j < rest; ++j) {  // A = e_i e_j^T: column j of Q gets Q_i, column i of K loses K_j
        Direction mixed{columns, Matrix<double>::zeros(d, 2 * rest)};
        for (Index a = 0; a < d; ++a) {
          mixed.values(a, j) = parameters(a, q + 2 * pairs + i);
          mixed.values(a, rest + i) = -parameters(a, k + 2 * pairs + j);
        }
        add(std::move(mixed), own);
      }
  }
}

Matrix<double> VariantGauge::part(MatrixView<const double> a) const {
  Matrix<double> out = Matrix<double>::zeros(a.rows, a.cols);
  for (const Direction& direction : basis_) {
    double along = 0;
    for (Index q = 0; q < direction.values.rows(); ++q)
      for (std::size_t c = 0; c < direction.columns.size(); ++c)
        along += direction.values(q, static_cast<Index>(c)) * a(q, direction.columns[c]);
    for (Index q = 0; q < direction.values.rows(); ++q)
      for (std::size_t c = 0; c < direction.columns.size(); ++c)
        out(q, direction.columns[c]) += along * direction.values(q, static_cast<Index>(c));
  }
  return out;
}

}  // namespace headlens::recovery
