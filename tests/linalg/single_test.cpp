// Float products of every instruction set against double loops.
#include "linalg/single.hpp"

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

std::vector<SingleKernels> all_kernels() {
  std::vector<SingleKernels> out;
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512})
    if (level <= simd_level()) out.push_back(single_kernels(level));
  return out;
}

TEST(SingleKernels, BlockMatchesDoubleLoop) {
  constexpr int w = kSingleLanes;
  for (const SingleKernels& kernels : all_kernels())
    for (const Index steps : {0, 1, 7, 256}) {
      const auto rows = random_matrix<float>(steps, w, "rows"),
                 columns = random_matrix<float>(steps, w, "columns");
      auto out = random_matrix<float>(w, w + 3, "out");
      const auto before = to_double(out);
      kernels.add_block(steps, columns.data(), rows.data(), out.data(), w + 3);
      for (Index r = 0; r < w; ++r)
        for (Index c = 0; c < w + 3; ++c) {
          double want = before(r, c), scale = std::abs(want);
          for (Index k = 0; k < steps && c < w; ++k) {
            want += double(rows(k, r)) * double(columns(k, c));
            scale += std::abs(double(rows(k, r)) * double(columns(k, c)));
          }
          ASSERT_NEAR(double(out(r, c)), want, double(steps + 2) * kEpsFloat * scale);
        }
    }
}

// Float times double rounds once a term: count * eps of double, not of float.
TEST(SingleKernels, DotAndAddedRowsAreDouble) {
  for (const SingleKernels& kernels : all_kernels())
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
}  // namespace headlens
