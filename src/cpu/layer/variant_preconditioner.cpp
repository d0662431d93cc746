#include <algorithm>
#include <utility>

#include "cpu/layer/variant_problem.hpp"
#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kSampled = 96;   // examples whose bends are taken
constexpr double kFloor = 1e-4;  // of the largest column: those that no label shows

// C^i W_i (d, e) of query a, stacked over the heads: sum_b p_b (x_b - mean) (x_b W_i)^T.
void slopes_of(const VariantProblem& problem, const VariantPoint& point, Index example, Index a,
               MatrixView<double> out) {
  const Index k = problem.tokens(), d = problem.dim(), e = problem.outputs(), row = example * k;
  Matrix<double> weighed(k, d);
  for (Index i = 0; i < problem.heads(); ++i) {
    const double* p = problem.map().attention(point.p, example, i).row(a);
    const double* mean = point.phi.view().row(row + a) + i * d;
    for (Index b = 0; b < k; ++b)
      for (Index q = 0; q < d; ++q) weighed(b, q) = p[b] * (problem.x()(row + b, q) - mean[q]);
    gemm(Trans::yes, Trans::no, 1.0, std::as_const(weighed).view(), point.v.view().block(row, i * e, k, e),
         0.0, out.block(i * d, 0, d, e));
  }
}

// B (m d, m d), lower, from about `wanted` rows.
Matrix<double> curvature_of(const VariantProblem& problem, const VariantPoint& point, Index wanted) {
  const Index features = problem.heads() * problem.dim(), k = problem.tokens();
  const Index step = std::max<Index>(1, problem.rows() / wanted);
  Matrix<double> out = Matrix<double>::zeros(features, features), slopes(features, problem.outputs());
  double used = 0;
  for (Index row = 0; row < problem.rows(); row += step, ++used) {
    slopes_of(problem, point, row / k, row % k, slopes.view());
    syrk(Trans::no, 1.0, std::as_const(slopes).view(), 1.0, out.view());
  }
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j <= i; ++j) out(i, j) *= static_cast<double>(problem.rows()) / used;
  return out;
}

// The diagonal of M_a, for G = v v^T: p_b^2 (G_bb - 2 (G p)_b + <p, G p>). Keys of different tokens are taken
// as independent of each other, which a preconditioner may do.
std::vector<double> bends(const double* p, MatrixView<const double> g) {
  const Index k = g.rows;
  std::vector<double> gp(static_cast<std::size_t>(k)), out(static_cast<std::size_t>(k));
  double mean = 0;
  for (Index b = 0; b < k; ++b) {
    for (Index c = 0; c < k; ++c) gp[static_cast<std::size_t>(b)] += g(b, c) * p[c];
    mean += p[b] * gp[static_cast<std::size_t>(b)];
  }
  for (Index b = 0; b < k; ++b)
    out[static_cast<std::size_t>(b)] =
        p[b] * p[b] * std::max(0.0, g(b, b) - 2 * gp[static_cast<std::size_t>(b)] + mean);
  return out;
}

}  // namespace

void VariantPreconditioner::refresh(const VariantProblem& problem, const VariantPoint& point) {
  if (problem.map().shape().rotary())
    refresh_columns(problem, point);
  else
    whole_.set(curvature_of(problem, point, 32 * problem.heads() + 64), problem.threads());
}

void VariantPreconditioner::refresh_columns(const VariantProblem& problem, const VariantPoint& point) {
  const VariantShape& shape = problem.map().shape();
  const Index k = problem.tokens(), m = shape.heads, r = shape.rank, e = problem.outputs();
  const Index examples = problem.rows() / k, step = std::max<Index>(1, examples / kSampled);
  columns_.assign(static_cast<std::size_t>(shape.columns()), 0.0);
  const auto column = [&](Index j) -> double& { return columns_[static_cast<std::size_t>(j)]; };
  Matrix<double> g(k, k);
  double used = 0;
  for (Index example = 0; example < examples; example += step, ++used)
    for (Index i = 0; i < m; ++i) {
      const Index row = example * k;
      const MatrixView<const double> v = point.v.view().block(row, i * e, k, e);
      gemm(Trans::no, Trans::yes, 1.0, v, v, 0.0, g.view());
      for (Index a = 0; a < k; ++a) {
        const std::vector<double> bend = bends(problem.map().attention(point.p, example, i).row(a), g.view());
        double all = 0;  // tr(X^T M_a X) / d of tokens of covariance one
        for (Index b = 0; b < k; ++b) {
          const double weight = bend[static_cast<std::size_t>(b)];
          all += weight;
          for (Index j = 0; j < r; ++j)
            column(i * r + j) +=
                weight * point.z(row + b, (m + i) * r + j) * point.z(row + b, (m + i) * r + j);
        }
        for (Index j = 0; j < r; ++j)
          column((m + i) * r + j) += all * point.z(row + a, i * r + j) * point.z(row + a, i * r + j);
        if (shape.variant.bias) column(2 * m * r + i) += all;
      }
    }
  const Rotary& rotary = *shape.variant.rotary;
  for (Index part = 0; part < 2 * m; ++part)
    for (Index j = 0; j < rotary.pairs(r); ++j) {
      const auto [first, second] = rotary.columns(j, r);
      column(part * r + first) = column(part * r + second) =
          0.5 * (column(part * r + first) + column(part * r + second));
    }
  const double largest = *std::max_element(columns_.begin(), columns_.end());
  for (double& value : columns_)
    value = std::max({value, kFloor * largest, 1e-300}) * static_cast<double>(examples) / used;
}

void VariantPreconditioner::shift(double mu) {
  mu_ = mu;
  if (columns_.empty()) whole_.shift(mu);
}

template <class T>
Matrix<T> VariantPreconditioner::apply(const Matrix<T>& a) const {
  if (columns_.empty()) return whole_.apply(a);
  Matrix<T> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < a.cols(); ++j)
      out(i, j) =
          static_cast<T>(static_cast<double>(a(i, j)) / (columns_[static_cast<std::size_t>(j)] + mu_));
  return out;
}

template Matrix<float> VariantPreconditioner::apply(const Matrix<float>&) const;
template Matrix<double> VariantPreconditioner::apply(const Matrix<double>&) const;

}  // namespace headlens::cpu
