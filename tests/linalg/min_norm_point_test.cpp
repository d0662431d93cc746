// Against the slow and obvious way: the smallest point of the affine hull of every subset of the points.
#include "linalg/min_norm_point.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"

namespace headlens {
namespace {

Matrix<double> gram_of(const Matrix<double>& points) {
  Matrix<double> out(points.rows(), points.rows());
  for (Index i = 0; i < points.rows(); ++i)
    for (Index j = 0; j < points.rows(); ++j) {
      out(i, j) = 0;
      for (Index c = 0; c < points.cols(); ++c) out(i, j) += points(i, c) * points(j, c);
    }
  return out;
}

double value(const Matrix<double>& gram, const std::vector<double>& lambda) {
  double sum = 0;
  for (Index i = 0; i < gram.rows(); ++i)
    for (Index j = 0; j < gram.rows(); ++j)
      sum += lambda[static_cast<std::size_t>(i)] * lambda[static_cast<std::size_t>(j)] * gram(i, j);
  return sum;
}

// Solves [G 1; 1 0] [lambda; nu] = [0; 1] on the subset by Gaussian elimination; empty where it is singular.
std::vector<double> affine_minimiser(const Matrix<double>& gram, const std::vector<Index>& subset) {
  const std::size_t n = subset.size() + 1;
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 1.0));
  for (std::size_t i = 0; i + 1 < n; ++i)
    for (std::size_t j = 0; j + 1 < n; ++j) a[i][j] = gram(subset[i], subset[j]);
  for (std::size_t i = 0; i + 1 < n; ++i) a[i][n] = 0;
  a[n - 1][n - 1] = 0;
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r)
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    if (std::abs(a[pivot][c]) < 1e-12) return {};
    std::swap(a[c], a[pivot]);
    for (std::size_t r = 0; r < n; ++r)
      if (r != c)
        for (std::size_t j = n + 1; j-- > c;) a[r][j] -= a[r][c] / a[c][c] * a[c][j];
  }
  std::vector<double> out;
  for (std::size_t i = 0; i + 1 < n; ++i) out.push_back(a[i][n] / a[i][i]);
  return out;
}

double smallest_by_enumeration(const Matrix<double>& gram) {
  double best = INFINITY;
  for (unsigned mask = 1; mask < 1u << gram.rows(); ++mask) {
    std::vector<Index> subset;
    for (Index b = 0; b < gram.rows(); ++b)
      if (mask >> b & 1) subset.push_back(b);
    std::vector<double> lambda(static_cast<std::size_t>(gram.rows()), 0.0);
    const std::vector<double> part = affine_minimiser(gram, subset);
    bool feasible = !part.empty();
    for (std::size_t i = 0; i < part.size(); ++i) {
      feasible = feasible && part[i] >= 0;
      lambda[static_cast<std::size_t>(subset[i])] = part[i];
    }
    if (feasible) best = std::min(best, value(gram, lambda));
  }
  return best;
}

TEST(MinNormPoint, AgreesWithEnumerationOfSupports) {
  MinNormPoint solver;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    Stream stream(trial, "test");
    const Index k = 2 + static_cast<Index>(trial % 6), e = 1 + static_cast<Index>(stream.below(7));
    Matrix<double> points(k, e);
    const double shift = 0.5 * stream.normal();  // with and without 0 in the hull
    for (Index i = 0; i < k * e; ++i) points.data()[i] = stream.normal() + shift;
    if (trial % 5 == 0)  // a duplicate token
      for (Index c = 0; c < e; ++c) points(k - 1, c) = points(0, c);
    const Matrix<double> gram = gram_of(points);
    const std::vector<double>& lambda = solver.solve(gram);
    double sum = 0;
    for (const double x : lambda) {
      EXPECT_GE(x, 0);
      sum += x;
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_NEAR(value(gram, lambda), smallest_by_enumeration(gram), 1e-10) << "trial " << trial;
  }
}

// Many points: the conditions of optimality, <x, p_b> >= |x|^2 for every b, prove it.
TEST(MinNormPoint, ManyPointsMeetTheOptimalityConditions) {
  Matrix<double> points(60, 20);
  Stream stream(1, "test");
  for (Index i = 0; i < 60 * 20; ++i) points.data()[i] = stream.normal() + 0.7;
  const Matrix<double> gram = gram_of(points);
  MinNormPoint solver;
  const std::vector<double> lambda = solver.solve(gram);
  const double square = value(gram, lambda);
  ASSERT_GT(square, 0.1);
  for (Index b = 0; b < 60; ++b) {
    double product = 0;
    for (Index c = 0; c < 60; ++c) product += gram(b, c) * lambda[static_cast<std::size_t>(c)];
    EXPECT_GT(product, square - 1e-11);
  }
}

}  // namespace
}  // namespace headlens
