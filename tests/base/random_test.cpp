#include "base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headlens {
namespace {

TEST(Stream, IsNamedBySeedPurposeAndIndex) {
  const auto first = [](std::uint64_t seed, const char* purpose, std::uint64_t index) {
    return Stream(seed, purpose, index).bits();
  };
  EXPECT_EQ(first(1, "heads", 2), first(1, "heads", 2));
  EXPECT_NE(first(1, "heads", 2), first(2, "heads", 2));
  EXPECT_NE(first(1, "heads", 2), first(1, "tokens", 2));
  EXPECT_NE(first(1, "heads", 2), first(1, "heads", 3));
}

// Golden values: a change here changes every model and data file that was ever made from a seed.
TEST(Stream, NeverChanges) {
  Stream stream(42, "heads", 7);
  const std::vector<std::uint64_t> expected{17733263702260610257ULL, 16850496437470027427ULL,
                                            10769206217729710646ULL, 4535833658402356238ULL,
                                            9206094437435644075ULL};
  for (const std::uint64_t bits : expected) EXPECT_EQ(stream.bits(), bits);
  EXPECT_DOUBLE_EQ(Stream(42, "heads", 7).normal(), 2.1827050423985397);
}

// Mean, variance, fourth moment of n = 200000 draws within 5 standard errors (two-sided 6e-7 each).
// A stream can be drawn from in shares: block b begins with draw 4 b, of bits and of normals alike.
TEST(Stream, SharesAreTheWhole) {
  const Stream fresh(7, "shares", 3);
  Stream bits = fresh, normals = fresh;
  for (std::uint64_t block = 0; block < 5; ++block) {
    Stream share = fresh.from_block(block), other = fresh.from_block(block);
    for (int i = 0; i < Stream::kBlock; ++i) {
      EXPECT_EQ(share.bits(), bits.bits());
      EXPECT_EQ(other.normal(), normals.normal());
    }
  }
}

TEST(Stream, NormalHasTheRightMoments) {
  Stream stream(3, "moments");
  constexpr int n = 200000;
  double sum = 0, square = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = stream.normal();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_LT(std::abs(sum / n), 5 / std::sqrt(n));
  EXPECT_LT(std::abs(square / n - 1), 5 * std::sqrt(2.0 / n));
  EXPECT_LT(std::abs(fourth / n - 3), 5 * std::sqrt(96.0 / n));
}

TEST(Stream, UniformAndBelowStayInRange) {
  Stream stream(4, "range");
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) {
    const double u = stream.uniform();
    EXPECT_GE(u, 0.0);
    EXPECT_LT(u, 1.0);
    ++seen[stream.below(7)];
  }
  // Each count is binomial(7000, 1/7): 5 standard deviations are 146.
  for (const int count : seen) EXPECT_NEAR(count, 1000, 146);
  EXPECT_EQ(stream.below(1), 0U);
}

}  // namespace
}  // namespace headlens
