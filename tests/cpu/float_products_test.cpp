// Float products of every instruction set against double loops.
#include "cpu/products/float_products.hpp"

#include <limits>

#include "linalg/matrices.hpp"

namespace headlens::cpu {
namespace {

using namespace reference;

std::vector<FloatProducts> all_kernels() {
  std::vector<FloatProducts> out;
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512})
    if (level <= simd_level()) out.push_back(float_products(level, false));
  if (has_integer_tiles()) out.push_back(float_products(simd_level(), true));
  return out;
}

// A group and, whatever its order in memory, its integers: found by products with unit vectors.
class Rounded {
 public:
  Rounded(const FloatProducts& kernels, const Matrix<float>& steps) : Rounded(kernels, steps, Raw()) {
    constexpr int w = kSingleLanes;
    for (Index first = 0; first < steps.rows(); first += w) {
      auto probes = Matrix<float>::zeros(steps.rows(), w), out = Matrix<float>::zeros(w, w);
      for (Index r = 0; r < std::min<Index>(w, steps.rows() - first); ++r) probes(first + r, r) = 1;
      kernels.add_block(steps.rows(), *this, Rounded(kernels, probes, Raw()), out.data(), w);
      for (Index r = 0; r < std::min<Index>(w, steps.rows() - first); ++r)
        for (Index c = 0; c < w; ++c)
          found_.push_back(unit(c) > 0 ? std::llround(double(out(r, c)) / unit(c)) : 0);
    }
  }
  std::int64_t integer(Index step, Index vector) const {
    return found_[std::size_t(step * kSingleLanes + vector)];
  }
  double unit(Index vector) const { return double(units_[vector]); }
  double item(Index step, Index vector) const { return double(integer(step, vector)) * unit(vector); }
  operator RoundedGroup() const { return {integers_.data(), units_.data()}; }

 private:
  struct Raw {};
  Rounded(const FloatProducts& kernels, const Matrix<float>& steps, Raw)
      : integers_(kernels.group_items), units_(kSingleLanes) {
    kernels.round_group(steps.rows(), steps.data(), steps.cols(), integers_.data(), units_.data());
  }
  Buffer<std::int32_t> integers_;
  Buffer<float> units_;
  std::vector<std::int64_t> found_;  // [step][vector]
};

// Some of the vectors are what a random one is not: all zero, constant, a single large item, tiny, huge.
Matrix<float> steps_of_all_kinds(Index steps, const char* name) {
  auto out = random_matrix<float>(steps, kSingleLanes, name);
  for (Index k = 0; k < steps; ++k) {
    out(k, 3) = 0;
    out(k, 4) = -1.7F;
    out(k, 5) = k == steps / 2 ? 1e3F : 1e-3F * out(k, 5);
    out(k, 6) *= 1e-15F;
    out(k, 7) *= 1e15F;
  }
  return out;
}

TEST(FloatProducts, VectorsRoundToTheNearestUnit) {
  for (const FloatProducts& kernels : all_kernels())
    for (const Index steps : {1, 2, 7, 511, 512}) {
      const auto from = steps_of_all_kinds(steps, "from");
      const Rounded rounded(kernels, from);
      for (Index r = 0; r < kSingleLanes; ++r) {
        const double unit = rounded.unit(r);
        std::int64_t squares = 0;
        double norm = 0;
        for (Index k = 0; k < steps; ++k) {
          const double x = double(from(k, r));
          ASSERT_NEAR(rounded.item(k, r), x, unit * 0.5 + 4 * kEpsFloat * std::abs(x)) << k << ", " << r;
          squares += rounded.integer(k, r) * rounded.integer(k, r);
          norm += x * x;
        }
        EXPECT_LT(squares, std::int64_t(1) << 31);
        EXPECT_LE(unit, std::sqrt(norm) / double(kRoundedItem) * (1 + double(steps) * kEpsFloat));
      }
    }
}

// Integers are summed exactly: what is rounded is a product of three and a sum of two. Vector 4 of the rows
// and of the columns are alike, the largest sum there is.
TEST(FloatProducts, BlocksOfIntegersAreExact) {
  constexpr int w = kSingleLanes;
  for (const FloatProducts& kernels : all_kernels())
    for (const Index steps : {0, 1, 2, 7, 64, 65, 512}) {
      const Rounded rows(kernels, steps_of_all_kinds(steps, "rows")),
          columns(kernels, steps_of_all_kinds(steps, "columns"));
      auto out = random_matrix<float>(w, w + 3, "out");
      const auto before = to_double(out);
      kernels.add_block(steps, columns, rows, out.data(), w + 3);
      for (Index r = 0; r < w; ++r)
        for (Index c = 0; c < w + 3; ++c) {
          std::int64_t sum = 0;
          for (Index k = 0; k < steps && c < w; ++k) sum += rows.integer(k, r) * columns.integer(k, c);
          const double added = c < w ? double(sum) * rows.unit(r) * columns.unit(c) : 0;
          ASSERT_NEAR(double(out(r, c)), before(r, c) + added,
                      4 * kEpsFloat * (std::abs(before(r, c)) + std::abs(added)));
        }
    }
}

TEST(FloatProducts, TilesOfBytesGiveTheSameBits) {
  if (!has_integer_tiles()) GTEST_SKIP() << "no AMX";
  const auto rows = steps_of_all_kinds(512, "rows"), columns = steps_of_all_kinds(512, "columns");
  auto want = Matrix<float>::zeros(kSingleLanes, kSingleLanes),
       got = Matrix<float>::zeros(kSingleLanes, kSingleLanes);
  const FloatProducts vectors = float_products(simd_level(), false),
                      tiles = float_products(simd_level(), true);
  vectors.add_block(512, Rounded(vectors, columns), Rounded(vectors, rows), want.data(), kSingleLanes);
  tiles.add_block(512, Rounded(tiles, columns), Rounded(tiles, rows), got.data(), kSingleLanes);
  for (Index i = 0; i < kSingleLanes; ++i)
    for (Index j = 0; j < kSingleLanes; ++j) EXPECT_EQ(got(i, j), want(i, j)) << i << ", " << j;
}

TEST(FloatProducts, WhatIsNotFiniteStaysSo) {
  for (const FloatProducts& kernels : all_kernels())
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      auto from = random_matrix<float>(20, kSingleLanes, "from");
      from(7, 2) = bad;
      const Rounded rounded(kernels, from);
      Matrix<float> out = Matrix<float>::zeros(kSingleLanes, kSingleLanes);
      kernels.add_block(20, rounded, rounded, out.data(), kSingleLanes);
      for (Index i = 0; i < kSingleLanes; ++i)
        for (Index j = 0; j < kSingleLanes; ++j)
          EXPECT_EQ(std::isfinite(out(i, j)), i != 2 && j != 2) << i << ", " << j;
    }
}

// Float times double rounds once a term: count * eps of double, not of float.
TEST(FloatProducts, DotAndAddedRowsAreDouble) {
  for (const FloatProducts& kernels : all_kernels())
    for (const Index count : {0, 1, 15, 16, 31, 32, 33, 100, 513}) {
      const auto a = random_matrix<float>(5, count + 2, "a");
      const auto b = random_matrix(1, count, "b"), scale = random_matrix(5, 3, "scale");
      double want = 0, size = 0;
      for (Index j = 0; j < count; ++j) {
        want += double(a(1, j)) * b(0, j);
        size += std::abs(double(a(1, j)) * b(0, j));
      }
      EXPECT_NEAR(kernels.dot(count, a.view().row(1), b.data()), want, double(count + 1) * kEps * size);
      auto out = copy_of(b);
      kernels.add_rows(5, count, a.data(), count + 2, scale.data(), 3, out.data());
      for (Index j = 0; j < count; ++j) {
        double sum = b(0, j), most = std::abs(sum);
        for (Index i = 0; i < 5; ++i) {
          sum += double(a(i, j)) * scale(i, 0);
          most += std::abs(double(a(i, j)) * scale(i, 0));
        }
        EXPECT_NEAR(out(0, j), sum, 8 * kEps * most);
      }
    }
}

}  // namespace
}  // namespace headlens::cpu
