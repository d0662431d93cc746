#include "recover/certificate/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRoundings = 4;       // in units of eps, of every logit and of every sum
constexpr double kAboveRounding = 10;  // times the rounding: what a solver at its floor may show
constexpr double kAboveRoundingHeldOut = 100;
constexpr double kSpent = 2;  // the part of the label error that the fit has absorbed, beside what it left
constexpr double kCurvature = 2;  // beyond first order; comes_back in proof.cpp checks that it holds
constexpr Index kLargestEigen = 512;
constexpr int kIterations = 40;

// Of the rows of a: their largest singular value, or above it their Frobenius norm where they are many.
double largest_singular_value(MatrixView<const double> a) {
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j)
      if (!std::isfinite(a(i, j))) return kInfinity;
  const double squares = squared_norm(a);
  if (a.rows > kLargestEigen || !(squares > 0) || !std::isfinite(squares)) return std::sqrt(squares);
  Matrix<double> gram(a.rows, a.rows);
  syrk(Trans::no, 1 / squares, a, 0.0, gram);
  const SymmetricEigen eigen = symmetric_eigen(gram);
  return eigen.ok() ? std::sqrt(squares * std::max(0.0, eigen.values.back())) : std::sqrt(squares);
}

// Of the labels and of our own sums, as a norm over all equations: eps (2 magnitude + |logits| spread).
double rounding(const Matrix<double>& theta, double magnitude, double spread) {
  double sharpest = 0;  // standard deviation of the logits
  const Index d = theta.rows();
  for (Index i = 0; i < theta.cols() / d; ++i)
    sharpest = std::max(sharpest, std::sqrt(squared_norm(theta.view().block(0, i * d, d, d))));
  return kRoundings * kEpsilon * (2 * magnitude + sharpest * std::min(magnitude, spread));
}

// The residual of the candidate on these rows, in units of their rounding.
double residual_in_roundings(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                             const Candidate& c, int threads) {
  const Index d = c.theta.rows(), m = c.heads();
  Matrix<double> p(x.rows * m, tokens), phi(x.rows, m * d), residual(x.rows, y.cols);
  AttentionMap<double>(x, tokens, m, threads).evaluate(c.theta, p, phi);
  copy_rows(y, residual);
  gemm(Trans::no, Trans::no, -1.0, phi.view(), c.w.view(), 1.0, residual.view());
  return std::sqrt(squared_norm(residual)) /
         rounding(c.theta, magnitude_of(phi.view(), c.w, d), spread_of(x, tokens, c.w));
}

// nu: what the fit left, what it may have absorbed, and the rounding of all that was summed.
double label_error(const Linearisation& at) {
  const double spare = static_cast<double>(std::max<Index>(1, at.equations - at.unknowns()));
  const double absorbed = std::sqrt(std::max(1.0, static_cast<double>(at.unknowns()) / spare));
  return std::sqrt(squared_norm(at.along)) +
         std::max(kSpent * absorbed * std::sqrt(at.beyond), rounding(at.theta, at.magnitude, at.spread));
}

// Rows of L^-T: entry (row of unknown, column).
Matrix<double> inverse_transposed(const Matrix<double>& lower) {
  Matrix<double> out = Matrix<double>::zeros(lower.rows(), lower.rows());
  for (Index i = 0; i < lower.rows(); ++i) out(i, i) = 1;
  trsm(Side::left, Trans::yes, lower, out);
  return out;
}

// The rows of `inverse` that belong to Theta_i, weighed.
Matrix<double> rows_of_theta(const Matrix<double>& inverse, Index d, Index m, Index i,
                             const std::vector<double>& weights) {
  const Index p = inverse.cols();
  Matrix<double> out(d * d, p);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b) {
      const double weight = weights[static_cast<std::size_t>(a)] * weights[static_cast<std::size_t>(b)];
      const double* from = inverse.view().row(a * m * d + i * d + b);
      for (Index j = 0; j < p; ++j) out(a * d + b, j) = weight * from[j];
    }
  return out;
}

// |dW_i| <= nu (|L_1^-T rows|^2 + |L_1^-T coupling L^-T rows|^2)^(1/2)
std::vector<double> w_norms(const Linearisation& at, const Matrix<double>& inverse,
                            const std::vector<double>& weights) {
  const Index d = at.theta.rows(), m = at.theta.cols() / d, features = m * d, e = at.w.cols(),
              p = inverse.cols();
  Matrix<double> own = inverse_transposed(at.phi);
  std::vector<Matrix<double>> through;  // of every output
  for (Index c = 0; c < e; ++c) {
    heed();
    Matrix<double> product(features, p);
    gemm(Trans::no, Trans::no, 1.0, at.coupling.view().block(c * features, 0, features, p), inverse, 0.0,
         product);
    trsm(Side::left, Trans::yes, at.phi, product);
    through.push_back(std::move(product));
  }
  std::vector<double> out;
  for (Index i = 0; i < m; ++i) {
    heed();
    Matrix<double> stacked(e * d, p), direct(d, features);
    for (Index b = 0; b < d; ++b) {
      const double weight = weights[static_cast<std::size_t>(b)];
      for (Index j = 0; j < features; ++j) direct(b, j) = weight * own(i * d + b, j);
      for (Index c = 0; c < e; ++c)
        for (Index j = 0; j < p; ++j)
          stacked(c * d + b, j) = weight * through[static_cast<std::size_t>(c)](i * d + b, j);
    }
    out.push_back(std::hypot(largest_singular_value(direct), largest_singular_value(stacked)));
  }
  return out;
}

// The unit vector v that |(L^T diag(sizes))^-1 v'| is largest along, by inverse iteration, and that norm.
struct Weakest {
  Matrix<double> direction;  // (p, 1)
  double value = 0;          // smallest singular value
};
Weakest smallest_direction(const Matrix<double>& lower, const std::vector<double>& sizes) {
  const Index p = lower.rows();
  Weakest out{Matrix<double>(p, 1), 0};
  for (Index j = 0; j < p; ++j) out.direction(j, 0) = 1 / std::sqrt(static_cast<double>(p));
  const auto rescale = [&] {
    for (Index j = 0; j < p; ++j) out.direction(j, 0) /= sizes[static_cast<std::size_t>(j)];
  };
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    rescale();
    trsm(Side::left, Trans::no, lower, out.direction);
    const double between = std::sqrt(squared_norm(out.direction));
    for (Index j = 0; j < p; ++j) out.direction(j, 0) /= between;
    trsm(Side::left, Trans::yes, lower, out.direction);
    rescale();
    const double length = std::sqrt(squared_norm(out.direction));
    for (Index j = 0; j < p; ++j) out.direction(j, 0) /= length;
    out.value = 1 / length;
  }
  return out;
}

}  // namespace

bool at_rounding(const Linearisation& at) {
  return std::sqrt(at.squares) < rounding(at.theta, at.magnitude, at.spread);
}

bool explained(const Linearisation& at) {
  return std::sqrt(at.squares) < kAboveRounding * rounding(at.theta, at.magnitude, at.spread);
}

bool explained(const Split& split, const Candidate& candidate, int threads) {
  return residual_in_roundings(split.train_x, split.train_y, split.tokens, candidate, threads) <
             kAboveRounding &&
         residual_in_roundings(split.held_x, split.held_y, split.tokens, candidate, threads) <
             kAboveRoundingHeldOut;
}

Bounds bound_errors(const Linearisation& at, const std::vector<double>& weights) {
  const Index d = at.theta.rows(), m = at.theta.cols() / d, p = at.factor.rows();
  Bounds out;
  out.label_error = label_error(at);
  const double reach = kCurvature * out.label_error;
  const Matrix<double> inverse = inverse_transposed(at.factor);
  const auto bounds_in = [&](const std::vector<double>& coordinates) {
    const std::vector<double> w = w_norms(at, inverse, coordinates);
    std::vector<HeadBound> heads;
    for (Index i = 0; i < m; ++i)
      heads.push_back({reach * largest_singular_value(rows_of_theta(inverse, d, m, i, coordinates)),
                       reach * w[static_cast<std::size_t>(i)]});
    return heads;
  };
  const std::vector<double> ones(static_cast<std::size_t>(d), 1);
  out.plain = bounds_in(ones);
  out.heads = weights == ones ? out.plain : bounds_in(weights);
  std::vector<double> own_size(static_cast<std::size_t>(p));
  for (Index i = 0; i < m; ++i) {
    const double size = std::max(std::sqrt(squared_norm(at.theta.view().block(0, i * d, d, d))),
                                 10 * out.plain[static_cast<std::size_t>(i)].theta);
    for (Index a = 0; a < d; ++a)
      for (Index b = 0; b < d; ++b) own_size[static_cast<std::size_t>(a * m * d + i * d + b)] = size;
  }
  const Weakest relative = smallest_direction(at.factor, own_size);
  out.weakest = Matrix<double>(d, m * d);
  for (Index j = 0; j < p; ++j)
    out.weakest.data()[j] = relative.direction(j, 0) * own_size[static_cast<std::size_t>(j)];
  const Weakest absolute = smallest_direction(at.factor, std::vector<double>(static_cast<std::size_t>(p), 1));
  out.smallest_singular_value = absolute.value;
  for (Index i = 0; i < m; ++i) {
    double share = 0;
    for (Index a = 0; a < d; ++a)
      for (Index b = 0; b < d; ++b) share += std::pow(absolute.direction(a * m * d + i * d + b, 0), 2);
    out.shares.push_back(share);
  }
  return out;
}

}  // namespace headlens::recovery
