// CholeskyQR2: orthonormal to rounding, same span, same order.
#include "linalg/orthonormalise.hpp"

#include <gtest/gtest.h>

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

TEST(Orthonormalise, ColumnsSpanTheSameSpace) {
  for (const Index n : {1, 40, 300, 700})
    for (const Index c : {1, 10, 40}) {
      if (c > n) continue;
      const auto a = random_matrix(n, c, "a");
      auto q = copy_of(a);
      ASSERT_TRUE(orthonormalise_columns(q, 2).ok());
      EXPECT_LE(distance(product(transposed(q), q), identity(c)), 4 * double(n) * kEps) << n << " x " << c;
      // A = Q (Q^T A), with Q^T A upper triangular and its diagonal positive.
      const auto r = product(transposed(q), a);
      EXPECT_LE(distance(product(q, r), a), 10 * double(n) * kEps * norm(a));
      for (Index i = 0; i < c; ++i) {
        EXPECT_GT(r(i, i), 0);
        for (Index j = 0; j < i; ++j) EXPECT_NEAR(r(i, j), 0, 10 * double(n) * kEps * norm(a));
      }
    }
}

TEST(Orthonormalise, IllConditionedColumns) {
  auto a = random_matrix(300, 20, "a");
  for (Index i = 0; i < 300; ++i)
    for (Index j = 0; j < 20; ++j) a(i, j) *= std::pow(10.0, -double(j) / 4);  // to 1e-4.75
  ASSERT_TRUE(orthonormalise_columns(a, 1).ok());
  EXPECT_LE(distance(product(transposed(a), a), identity(20)), 4 * 300 * kEps);
}

TEST(Orthonormalise, DependentColumnsAreAStatus) {
  auto a = Matrix<double>::zeros(10, 3);
  for (Index i = 0; i < 10; ++i) a(i, 0) = 1;
  const CholeskyResult result = orthonormalise_columns(a, 1);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.pivot, 1);
}

TEST(Orthonormalise, IgnoresThreads) {
  const auto a = random_matrix(1500, 30, "a");
  auto first = copy_of(a);
  ASSERT_TRUE(orthonormalise_columns(first, 1).ok());
  for (const int threads : kThreadCounts) {
    auto q = copy_of(a);
    ASSERT_TRUE(orthonormalise_columns(q, threads).ok());
    EXPECT_TRUE(same_bits(first, q)) << threads;
  }
}

}  // namespace
}  // namespace headlens
