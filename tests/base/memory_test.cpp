#include "base/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headlens/array.hpp"
#include "headlens/bytes.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

TEST(Bytes, AreParsedInPowersOf1024) {
  EXPECT_EQ(parse_bytes("123"), 123U);
  EXPECT_EQ(parse_bytes("1K"), 1024U);
  EXPECT_EQ(parse_bytes("1.5M"), 1572864U);
  EXPECT_EQ(parse_bytes("8G"), 8ULL << 30);
  EXPECT_EQ(parse_bytes("8GiB"), 8ULL << 30);
  EXPECT_EQ(parse_bytes("8GB"), 8ULL << 30);
  EXPECT_EQ(parse_bytes("2T"), 2ULL << 40);
  for (const char* bad : {"", "G", "-1G", "0", "8X", "8GG", "lots", "nan", "inf", "1e300"})
    EXPECT_THROW(parse_bytes(bad), Error) << bad;
}

TEST(Bytes, AreFormattedForPeople) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(3ULL << 30), "3.0 GiB");
}

TEST(MemoryBudget, RefusesWithBothNumbers) {
  const MemoryBudget budget({.max_memory_bytes = 1ULL << 30});
  EXPECT_NO_THROW(budget.require(1e9, "this"));
  try {
    budget.require(3.0 * (1ULL << 30), "the Gram matrix");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::memory);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("the Gram matrix"),
                                             testing::HasSubstr("3.0 GiB"), testing::HasSubstr("1.0 GiB")));
  }
}

TEST(MemoryBudget, DefaultsToMostOfWhatIsFree) {
  const double limit = static_cast<double>(MemoryBudget({}).limit_bytes());
  const double free = static_cast<double>(free_memory_bytes());
  EXPECT_GT(free, 0);
  EXPECT_NEAR(limit / free, 0.8, 0.1);  // other programs may take or free memory in between
}

TEST(Array, RefusesShapesThatOverflow) {
  EXPECT_THROW(Array(DType::f64, {Index{1} << 40, Index{1} << 40}), Error);
  EXPECT_THROW(Array(DType::f64, {-1}), Error);
  EXPECT_EQ(Array(DType::f64, {0, 5}).size(), 0);
}

TEST(Array, ConvertsAndChecksTypes) {
  const Array a = Array::from<std::int32_t>({1, -2, 3}, {3});
  EXPECT_EQ(a.to_doubles(), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(a.describe(), "int32 (3,)");
  EXPECT_THROW(a.data<double>(), Bug);
}

}  // namespace
}  // namespace headlens
