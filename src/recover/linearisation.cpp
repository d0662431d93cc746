#include "recover/linearisation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/qr.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/verdict.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kMostUnknowns = 1100;               // entries of Theta: the factor has the square of that
constexpr Index kLargestCoupling = Index{1} << 24;  // entries
constexpr double kLean = 8;       // equations per unknown: more hardly sharpen what these show
constexpr double kLeanLarge = 4;  // of problems whose factorisation takes a second
constexpr double kLarge = 4e9;    // flops with 8 equations per unknown
constexpr Index kGroups = 4;      // of outputs, factored side by side; fixed, so threads change nothing

bool all_finite(const Matrix<double>& a) {
  return std::all_of(a.data(), a.data() + a.rows() * a.cols(), [](double x) { return std::isfinite(x); });
}

// A direction that nothing sees gets the smallest response that rounding could hide.
void lift_zeros(Matrix<double>& lower) {
  double largest = 0;
  for (Index j = 0; j < lower.rows(); ++j) largest = std::max(largest, std::abs(lower(j, j)));
  for (Index j = 0; j < lower.rows(); ++j)
    if (std::abs(lower(j, j)) < 1e-18 * largest) lower(j, j) = 1e-18 * largest;
}

// Phi at theta and its QR.
struct Features {
  Matrix<double> p, phi;  // (n k m, k), (n k, m d)
  TallQr qr;
  Matrix<double> factor;  // L_1
};

std::optional<Features> features_at(const Split& split, const Matrix<double>& theta, int threads) {
  const Index d = theta.rows(), m = theta.cols() / d, rows = split.train_x.rows;
  if (rows < m * d || !all_finite(theta)) return std::nullopt;
  Matrix<double> p(rows * m, split.tokens), phi(rows, m * d);
  AttentionMap<double>(split.train_x, split.tokens, m, threads).evaluate(theta, p, phi);
  if (!all_finite(phi)) return std::nullopt;
  TallQr qr(copy_of(phi));
  Matrix<double> factor = qr.factor();
  lift_zeros(factor);
  return Features{std::move(p), std::move(phi), std::move(qr), std::move(factor)};
}

void qr_step(const Features& f, Projected& out) {
  const Index features = f.factor.rows(), e = out.w.cols();
  f.qr.rotate(out.residual);
  const MatrixView<double> step = out.residual.view().block(0, 0, features, e);
  trsm(Side::left, Trans::yes, f.factor, step);
  for (Index i = 0; i < features; ++i)
    for (Index c = 0; c < e; ++c) out.w(i, c) += step(i, c);
}

// The best W, refined once against its own residual, so that the residual is good to the rounding of Y.
Projected project(const Split& split, const Features& f) {
  const Index features = f.factor.rows(), rows = split.train_x.rows, e = split.train_y.cols;
  Projected out{0, Matrix<double>::zeros(features, e), Matrix<double>(rows, e)};
  copy_rows(split.train_y, out.residual);
  for (int pass = 0; pass < 2; ++pass) {
    qr_step(f, out);
    copy_rows(split.train_y, out.residual);
    gemm(Trans::no, Trans::no, -1.0, f.phi, std::as_const(out.w).view(), 1.0, out.residual);
  }
  out.squares = squared_norm(out.residual);
  return out;
}

// J_c (n k, m d^2) and, last, the residual of output c: entry (a, i d + b) of dTheta moves the row of token a
// by x_a (C^i W_i)_b.
Matrix<double> derivative_of_output(const Split& split, const Matrix<double>& slopes,
                                    const Matrix<double>& residual, Index c) {
  const Index e = residual.cols();
  const Index rows = split.train_x.rows, d = split.train_x.cols, features = slopes.cols() / e;
  Matrix<double> out(rows, d * features + 1);
  for (Index row = 0; row < rows; ++row) {
    const double* x = split.train_x.row(row);
    double* to = out.view().row(row);
    for (Index a = 0; a < d; ++a)
      for (Index j = 0; j < features; ++j) to[a * features + j] = x[a] * slopes(row, j * e + c);
    to[d * features] = residual(row, c);
  }
  return out;
}

// [L^T; 0], with room for `rows` more below.
Matrix<double> stacked_on(const Matrix<double>& lower, Index rows, Index columns) {
  Matrix<double> out = Matrix<double>::zeros(std::max(columns, lower.rows() + rows), columns);
  for (Index i = 0; i < lower.rows(); ++i)
    for (Index j = i; j < columns; ++j) out(i, j) = lower(j, i);
  return out;
}

// The triangular factor of several, one below the other.
Matrix<double> factor_of_all(const std::vector<Matrix<double>>& lowers) {
  const Index columns = lowers[0].rows();
  Matrix<double> stacked(static_cast<Index>(lowers.size()) * columns, columns);
  for (std::size_t g = 0; g < lowers.size(); ++g)
    copy_rows(stacked_on(lowers[g], 0, columns),
              stacked.view().block(static_cast<Index>(g) * columns, 0, columns, columns));
  return TallQr(std::move(stacked)).factor();
}

// C^i W_i of every row (n k, m d e).
Matrix<double> slopes_of(const Split& split, const Features& f, const Matrix<double>& w, int threads) {
  const Index features = f.phi.cols(), rows = split.train_x.rows, e = w.cols(),
              m = features / split.train_x.cols;
  const AttentionMap<double> map(split.train_x, split.tokens, m, threads);
  Matrix<double> values(rows / split.tokens * e, m * split.tokens);
  map.values(w, values);
  Matrix<double> slopes(rows, features * e);
  parallel_for(threads, rows, [&](Index row, int) {
    map.slopes(f.p, f.phi, values, row, MatrixView<double>(slopes.view().row(row), features, e));
  });
  return slopes;
}

// The residual came along as the last column: its coordinates in Q stand in the last row of L.
void take_factor(const Matrix<double>& lower, Linearisation& out) {
  const Index p = lower.rows() - 1;
  out.factor = Matrix<double>(p, p);
  out.along = Matrix<double>(p, 1);
  copy_rows(lower.view().block(0, 0, p, p), out.factor);
  for (Index j = 0; j < p; ++j) out.along(j, 0) = lower(p, j);
  lift_zeros(out.factor);
  out.beyond = lower(p, p) * lower(p, p);
}

}  // namespace

double magnitude_of(MatrixView<const double> phi, const Matrix<double>& w, Index d) {
  double squares = 0;
  Matrix<double> part(phi.rows, w.cols());
  for (Index i = 0; i < w.rows() / d; ++i) {
    gemm(Trans::no, Trans::no, 1.0, phi.block(0, i * d, phi.rows, d), w.view().block(i * d, 0, d, w.cols()),
         0.0, part);
    squares += squared_norm(part);
  }
  return std::sqrt(squares);
}

double spread_of(MatrixView<const double> x, Index tokens, const Matrix<double>& w) {
  const Index d = x.cols;
  Matrix<double> centred(x.rows, d);
  for (Index first = 0; first < x.rows; first += tokens)
    for (Index a = 0; a < d; ++a) {
      double mean = 0;
      for (Index j = 0; j < tokens; ++j) mean += x(first + j, a) / static_cast<double>(tokens);
      for (Index j = 0; j < tokens; ++j) centred(first + j, a) = x(first + j, a) - mean;
    }
  double squares = 0;
  for (Index i = 0; i < w.rows() / d; ++i) {
    Matrix<double> part(x.rows, w.cols());
    gemm(Trans::no, Trans::no, 1.0, centred, w.view().block(i * d, 0, d, w.cols()), 0.0, part);
    squares += squared_norm(part);
  }
  return std::sqrt(squares);
}

bool can_be_dense(const Split& split, Index heads) {
  const Index d = split.train_x.cols, p = heads * d * d;
  return p <= kMostUnknowns && heads * d * split.train_y.cols * p <= kLargestCoupling &&
         examples_per_unknown(split, heads) >= 1;
}

double dense_bytes(const Split& split, Index heads) {
  if (!can_be_dense(split, heads)) return 0;
  const double d = static_cast<double>(split.train_x.cols), e = static_cast<double>(split.train_y.cols),
               m = static_cast<double>(heads), p = m * d * d,
               rows = static_cast<double>(dense_examples(split, heads).train_x.rows);
  const double groups = std::min(e, static_cast<double>(kGroups));
  // Couplings (and their products with the inverse), slopes, two copies of J_c per group and the rows that
  // are gathered, factors.
  return 8 * (3 * e * m * d * p + rows * m * d * e + groups * (3 * rows + 3 * p) * (p + 1) +
              (6 + groups) * p * p);
}

Split dense_examples(const Split& split, Index heads) {
  const double d = static_cast<double>(split.train_x.cols), p = static_cast<double>(heads) * d * d,
               unknowns = static_cast<double>(heads) * d * (d + static_cast<double>(split.train_y.cols));
  return first_examples(split, heads, 2 * kLean * unknowns * p * p < kLarge ? kLean : kLeanLarge);
}

std::optional<Projected> project(const Split& split, const Matrix<double>& theta, int threads) {
  const std::optional<Features> f = features_at(split, theta, threads);
  if (!f) return std::nullopt;
  return project(split, *f);
}

std::optional<Linearisation> linearise(const Split& split, const Matrix<double>& theta, int threads) {
  const Index d = theta.rows(), m = theta.cols() / d, features = m * d, p = d * features;
  const Index rows = split.train_x.rows, e = split.train_y.cols, outside = rows - features;
  if (outside < 1 || outside * e < p) return std::nullopt;
  std::optional<Features> f = features_at(split, theta, threads);
  if (!f) return std::nullopt;
  Projected projected = project(split, *f);

  const Matrix<double> slopes = slopes_of(split, *f, projected.w, threads);
  Linearisation out;
  out.magnitude = magnitude_of(f->phi.view(), projected.w, d);
  out.spread = spread_of(split.train_x, split.tokens, projected.w);
  out.coupling = Matrix<double>(e * features, p);
  std::vector<Matrix<double>> parts(static_cast<std::size_t>(std::min(e, kGroups)));
  const auto groups = static_cast<Index>(parts.size());
  // Outputs are gathered until they have twice as many rows as columns: the factor that is already there is
  // then seldom factored again.
  const Index batch = 1 + 2 * p / outside;
  parallel_for(threads, groups, [&](Index group, int) {
    Matrix<double> lower;
    for (Index first = group; first < e; first += batch * groups) {
      const Index count = std::min(batch, (e - first - 1) / groups + 1), above = lower.rows();
      Matrix<double> stacked = stacked_on(lower, count * outside, p + 1);
      for (Index i = 0; i < count; ++i) {
        const Index c = first + i * groups;
        Matrix<double> derivative = derivative_of_output(split, slopes, projected.residual, c);
        f->qr.rotate(derivative);
        copy_rows(derivative.view().block(0, 0, features, p),
                  out.coupling.view().block(c * features, 0, features, p));
        copy_rows(derivative.view().block(features, 0, outside, p + 1),
                  stacked.view().block(above + i * outside, 0, outside, p + 1));
      }
      heed();
      lower = TallQr(std::move(stacked)).factor();
    }
    parts[static_cast<std::size_t>(group)] = std::move(lower);
  });
  heed();
  take_factor(groups == 1 ? std::move(parts[0]) : factor_of_all(parts), out);
  out.squares = projected.squares;
  out.theta = copy_of(theta);
  out.w = std::move(projected.w);
  out.phi = std::move(f->factor);
  out.equations = rows * e;
  if (!all_finite(out.factor) || !all_finite(out.along) || !all_finite(out.w)) return std::nullopt;
  return out;
}

}  // namespace headlens::recovery
