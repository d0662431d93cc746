// Eigenvalues and eigenvectors of symmetric matrices.
#include "linalg/eigen.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

TEST(SymmetricEigen, ReproducesTheMatrix) {
  for (const Index n : {0, 1, 2, 31, 65, 300}) {
    const auto a = random_symmetric(n, "a");
    auto lower = copy_of(a);
    poison_upper(lower);
    const SymmetricEigen eigen = symmetric_eigen(lower);
    ASSERT_TRUE(eigen.ok());
    ASSERT_EQ(Index(eigen.values.size()), n);
    EXPECT_TRUE(std::is_sorted(eigen.values.begin(), eigen.values.end()));
    const auto gram = product(eigen.vectors, transposed(eigen.vectors));
    EXPECT_LE(distance(gram, identity(n)), 10 * double(n) * kEps) << n;
    EXPECT_LE(distance(with_spectrum(eigen.values, eigen.vectors), a), 10 * double(n) * kEps * norm(a)) << n;
  }
}

TEST(SymmetricEigen, KnownValues) {
  std::vector<double> values;
  for (Index k = 0; k < 100; ++k) values.push_back(double(k / 2));  // pairs of equal ones, and zeros
  const SymmetricEigen eigen = symmetric_eigen(with_spectrum(values, random_orthogonal(100, "v")));
  ASSERT_TRUE(eigen.ok());
  for (Index k = 0; k < 100; ++k)
    EXPECT_NEAR(eigen.values[std::size_t(k)], values[std::size_t(k)], 10 * 100 * kEps * values.back());
}

TEST(SymmetricEigen, NanIsAStatus) {
  auto a = identity(5);
  a(3, 1) = std::numeric_limits<double>::quiet_NaN();
  const SymmetricEigen eigen = symmetric_eigen(a);
  EXPECT_EQ(eigen.status, EigenStatus::not_finite);
  EXPECT_TRUE(eigen.values.empty());
}

}  // namespace
}  // namespace headlens
