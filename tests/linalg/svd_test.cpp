#include "linalg/svd.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"

namespace headlens {
namespace {

TEST(Svd, PutsTheMatrixTogetherAgain) {
  for (const auto& [rows, cols] :
       std::vector<std::pair<Index, Index>>{{1, 1}, {5, 3}, {3, 5}, {40, 7}, {0, 3}}) {
    Stream stream(1, "svd", static_cast<std::uint64_t>(rows * 100 + cols));
    Matrix<double> a(rows, cols);
    for (Index i = 0; i < rows * cols; ++i) a.data()[i] = stream.normal();
    const Svd s = svd(a);
    ASSERT_TRUE(s.ok);
    for (std::size_t r = 1; r < s.values.size(); ++r) EXPECT_GE(s.values[r - 1], s.values[r]);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < cols; ++j) {
        double sum = 0;
        for (Index r = 0; r < s.left.cols(); ++r)
          sum += s.left(i, r) * s.values[static_cast<std::size_t>(r)] * s.right(r, j);
        EXPECT_NEAR(sum, a(i, j), 1e-13);
      }
    for (Index r = 0; r < s.left.cols(); ++r)
      for (Index t = 0; t <= r; ++t) {
        double left = 0, right = 0;
        for (Index i = 0; i < rows; ++i) left += s.left(i, r) * s.left(i, t);
        for (Index j = 0; j < cols; ++j) right += s.right(r, j) * s.right(t, j);
        EXPECT_NEAR(left, r == t, 1e-13);
        EXPECT_NEAR(right, r == t, 1e-13);
      }
  }
}

TEST(Svd, SaysWhatIsNotFinite) {
  Matrix<double> a = Matrix<double>::zeros(2, 2);
  a(1, 0) = std::nan("");
  EXPECT_FALSE(svd(a).ok);
}

}  // namespace
}  // namespace headlens
