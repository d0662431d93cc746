// Cholesky: backward error, failures that name their pivot, the untouched upper triangle, threads.
#include "linalg/cholesky.hpp"

#include <gtest/gtest.h>

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

Matrix<double> lower_part(const Matrix<double>& a) {
  auto out = Matrix<double>::zeros(a.rows(), a.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j <= i; ++j) out(i, j) = a(i, j);
  return out;
}

TEST(Cholesky, FactorHasASmallBackwardError) {
  for (const Index n : {0, 1, 2, 127, 128, 129, 255, 256, 257, 300, 700}) {
    const auto a = random_positive(n, "a");
    auto factor = copy_of(a);
    poison_upper(factor);
    ASSERT_TRUE(cholesky(factor, 2).ok()) << n;
    EXPECT_TRUE(upper_is_poisoned(factor));
    const auto l = lower_part(factor);
    const auto back = product(l, transposed(l));
    // Higham, theorem 10.3: |A - L L^T| <= (n + 1) eps |L| |L|^T, and |L| |L|^T <= sqrt(a_ii a_jj).
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j <= i; ++j)
        ASSERT_NEAR(back(i, j), a(i, j), 2 * double(n + 2) * kEps * std::sqrt(a(i, i) * a(j, j))) << n;
  }
}

TEST(Cholesky, IgnoresThreads) {
  for (const Index n : {129, 300, 700}) {
    const auto a = random_positive(n, "a");
    auto first = copy_of(a);
    ASSERT_TRUE(cholesky(first, 1).ok());
    for (const int threads : kThreadCounts) {
      auto factor = copy_of(a);
      ASSERT_TRUE(cholesky(factor, threads).ok());
      EXPECT_TRUE(same_bits(first, factor)) << n << ", " << threads << " threads";
    }
  }
}

TEST(Cholesky, IndefiniteMatricesNameTheirPivot) {
  for (const Index pivot : {0, 5, 127, 128, 200, 299}) {
    auto a = identity(300);
    a(pivot, pivot) = -1;
    const CholeskyResult result = cholesky(a, 2);
    EXPECT_EQ(result.status, CholeskyStatus::not_positive_definite);
    EXPECT_EQ(result.pivot, pivot);
  }
}

TEST(Cholesky, SingularMatricesFail) {
  auto zero = Matrix<double>::zeros(3, 3);
  EXPECT_EQ(cholesky(zero, 1).pivot, 0);
  // Row 150 repeats row 20 of a matrix of small integers: every pivot before it is exact, and its own is
  // zero.
  auto a = identity(200);
  a(150, 20) = a(20, 150) = 1;
  const CholeskyResult result = cholesky(a, 1);
  EXPECT_EQ(result.status, CholeskyStatus::not_positive_definite);
  EXPECT_EQ(result.pivot, 150);
}

TEST(Cholesky, NanAndInfinityAreNotPositive) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const Index row : {0, 3, 140, 299})
      for (const Index col : {Index{0}, row / 2, row}) {
        auto a = identity(300);
        a(row, col) = bad;
        const CholeskyResult result = cholesky(a, 2);
        EXPECT_EQ(result.status, CholeskyStatus::not_positive_definite)
            << bad << " at " << row << ", " << col;
        EXPECT_EQ(result.pivot, row);
      }
}

TEST(CholeskySolve, HasASmallResidual) {
  for (const Index n : {0, 1, 127, 128, 129, 300, 700})
    for (const Index q : {0, 1, 5, 300}) {
      if (n == 700 && q == 300) continue;
      const auto a = random_positive(n, "a"), b = random_matrix(n, q, "b");
      auto factor = copy_of(a);
      ASSERT_TRUE(cholesky(factor, 1).ok());
      Matrix<double> first;
      for (const int threads : kThreadCounts) {
        auto x = copy_of(b);
        cholesky_solve(factor, x, threads);
        if (threads > 1) {
          EXPECT_TRUE(same_bits(first, x));
          continue;
        }
        // Higham, theorem 10.4: the solution of a system perturbed by (3n + 1) eps |L| |L|^T.
        const double bound =
            double(3 * n + 1) * kEps * norm(a) * norm(x) + double(n) * kEps * norm(a) * norm(x);
        EXPECT_LE(distance(product(a, x), b), bound) << n << " " << q;
        first = std::move(x);
      }
    }
}

}  // namespace
}  // namespace headlens
