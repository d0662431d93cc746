// The regularised solve: residuals, honest reports, failures.
#include "linalg/regularised.hpp"

#include <gtest/gtest.h>

#include "linalg/gram.hpp"
#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

double worst_residual(const Matrix<double>& a, const Matrix<double>& x, const Matrix<double>& b) {
  const auto ax = product(a, x);
  double worst = 0;
  for (Index j = 0; j < b.cols(); ++j) {
    double residual = 0, size = 0;
    for (Index i = 0; i < b.rows(); ++i) {
      residual += (b(i, j) - ax(i, j)) * (b(i, j) - ax(i, j));
      size += b(i, j) * b(i, j);
    }
    if (size > 0) worst = std::max(worst, std::sqrt(residual / size));
  }
  return worst;
}

// |b - A x| <= c n eps |A| |x|, both for the solution and for the two ways of computing the residual.
double residual_bound(const Matrix<double>& a, const Matrix<double>& x, const Matrix<double>& b) {
  double smallest = norm(b);
  for (Index j = 0; j < b.cols(); ++j) {
    const double size = norm(b.view().block(0, j, b.rows(), 1));
    if (size > 0) smallest = std::min(smallest, size);
  }
  return smallest > 0 ? 4 * double(a.rows() + 2) * kEps * norm(a) * norm(x) / smallest : 0;
}

TEST(SolveRegularised, ResidualIsSmallAndReported) {
  for (const Index n : {0, 1, 2, 63, 64, 65, 127, 128, 129, 300, 700})
    for (const double shift : {1e-8, 1.0}) {
      auto a = random_positive(n, "a");
      const auto b = random_matrix(n, 3, "b");
      auto gram = copy_of(a);
      poison_upper(gram);
      Matrix<double> x(n, 3);
      const RegularisedSolve result = solve_regularised(gram, shift, b, x, 2);
      ASSERT_TRUE(result.ok());
      for (Index i = 0; i < n; ++i) a(i, i) += shift;
      const double bound = residual_bound(a, x, b), actual = worst_residual(a, x, b);
      EXPECT_LE(actual, bound) << n;
      EXPECT_NEAR(result.relative_residual, actual, bound) << n;
    }
}

TEST(SolveRegularised, RankDeficientGram) {
  const auto rows = random_matrix(300, 40, "rows");
  const auto b = random_matrix(300, 2, "b");
  auto gram = Matrix<double>::zeros(300, 300);
  add_outer(rows, gram, 1);
  auto a = product(rows, transposed(rows));
  const double shift = 1e-9 * norm(a);
  Matrix<double> x(300, 2);
  const RegularisedSolve result = solve_regularised(gram, shift, b, x, 2);
  ASSERT_TRUE(result.ok());
  for (Index i = 0; i < 300; ++i) a(i, i) += shift;
  EXPECT_LE(worst_residual(a, x, b), residual_bound(a, x, b));
  EXPECT_LE(result.relative_residual, residual_bound(a, x, b));
}

TEST(SolveRegularised, IgnoresThreads) {
  const auto a = random_positive(700, "a"), b = random_matrix(700, 3, "b");
  Matrix<double> first(700, 3);
  for (const int threads : kThreadCounts) {
    auto gram = copy_of(a);
    Matrix<double> x(700, 3);
    ASSERT_TRUE(solve_regularised(gram, 0.5, b, x, threads).ok());
    if (threads == 1) copy_rows(x, first);
    EXPECT_TRUE(same_bits(first, x));
  }
}

TEST(SolveRegularised, ZeroRightHandSide) {
  auto a = random_positive(50, "a");
  const auto b = Matrix<double>::zeros(50, 2);
  Matrix<double> x(50, 2);
  const RegularisedSolve result = solve_regularised(a, 0.0, b, x, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.relative_residual, 0);
  EXPECT_EQ(norm(x), 0);
}

TEST(SolveRegularised, IndefiniteLeavesTheSolutionAlone) {
  auto a = identity(300);
  a(170, 170) = -2;
  const auto b = random_matrix(300, 1, "b");
  auto x = random_matrix(300, 1, "x");
  const auto kept = copy_of(x);
  const RegularisedSolve result = solve_regularised(a, 1.0, b, x, 1);
  EXPECT_EQ(result.status, CholeskyStatus::not_positive_definite);
  EXPECT_EQ(result.pivot, 170);
  EXPECT_TRUE(same_bits(kept, x));
}

TEST(SolveRegularised, TheShiftCanRescueIt) {
  auto a = identity(300);
  a(170, 170) = -2;
  const auto b = random_matrix(300, 1, "b");
  Matrix<double> x(300, 1);
  EXPECT_TRUE(solve_regularised(a, 2.5, b, x, 1).ok());
}

}  // namespace
}  // namespace headlens
