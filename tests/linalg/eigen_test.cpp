// Eigenvalues and eigenvectors.
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

TEST(GeneralEigen, RealVectorsAreMappedToThemselves) {
  for (const Index n : {1, 2, 5, 16}) {
    const auto values = random_symmetric(n, "d");
    Matrix<double> a(n, n);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) a(i, j) = j > i ? values(i, j) : i == j ? double(i) - 2.5 : 0;
    const GeneralEigen eigen = general_eigen(a);
    ASSERT_TRUE(eigen.ok());
    auto sorted = eigen.values;
    std::sort(sorted.begin(), sorted.end());
    for (Index k = 0; k < n; ++k) {
      // A triangular matrix has its diagonal as eigenvalues; how well depends on the angle of its vectors.
      EXPECT_NEAR(sorted[std::size_t(k)], double(k) - 2.5, 1e-6);
      for (Index i = 0; i < n; ++i) {
        double image = 0;
        for (Index j = 0; j < n; ++j) image += a(i, j) * eigen.vectors(k, j);
        EXPECT_NEAR(image, eigen.values[std::size_t(k)] * eigen.vectors(k, i),
                    100 * double(n) * kEps * norm(a));
      }
    }
  }
}

TEST(GeneralEigen, APairOfComplexValuesShowsAsTwoEqualOnes) {
  Matrix<double> turn(2, 2);
  turn(0, 0) = turn(1, 1) = 3, turn(0, 1) = -4, turn(1, 0) = 4;  // 3 +- 4i
  const GeneralEigen eigen = general_eigen(turn);
  ASSERT_TRUE(eigen.ok());
  EXPECT_NEAR(eigen.values[0], 3, 10 * kEps);
  EXPECT_EQ(eigen.values[0], eigen.values[1]);
}

TEST(GeneralEigen, NanIsAStatus) {
  auto a = identity(3);
  a(0, 2) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(general_eigen(a).status, EigenStatus::not_finite);
}

}  // namespace
}  // namespace headlens
