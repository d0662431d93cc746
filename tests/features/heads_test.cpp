// The heads that are drawn: their mean, their rank, their streams.
#include "features/heads.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"

namespace headlens {
namespace {

TEST(Heads, BiasAddsTheIdentity) {
  const FeatureOptions rfa = with_default_scales({.kind = ModelKind::rfa, .heads = 3, .seed = 5}, 1);
  const FeatureOptions brfa = with_default_scales({.kind = ModelKind::brfa, .heads = 3, .seed = 5}, 1);
  const Array a = draw_heads(rfa, 4, 0, 1), b = draw_heads(brfa, 4, 0, 1);
  for (Index m = 0; m < 3; ++m)
    for (Index i = 0; i < 5; ++i)
      for (Index j = 0; j < 5; ++j)
        EXPECT_NEAR(b.at((m * 5 + i) * 5 + j) - a.at((m * 5 + i) * 5 + j), i == j && i < 4 ? 1.0 : 0.0,
                    1e-15);
}

// weight_scale Q K^T / sqrt(r), plus bias_scale times the mean, entry by entry.
TEST(Heads, OfARankAreProducts) {
  constexpr Index dim = 4, extended = 5, rank = 3;
  FeatureOptions options{
      .kind = ModelKind::brfa, .heads = 70, .bias_scale = -0.5, .weight_scale = 0.3, .seed = 8};
  options.head_rank = rank;
  options.mean =
      Array::from(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {4, 4});
  const Array heads = draw_heads(options, dim, 0, 2);
  for (const Index m : {0, 69}) {
    Stream stream(8, "head-factors", static_cast<std::uint64_t>(m));
    double query[extended][rank], key[extended][rank];
    for (Index k = 0; k < rank; ++k) {
      for (auto& row : query) row[k] = stream.normal();
      for (auto& row : key) row[k] = stream.normal();
    }
    for (Index i = 0; i < extended; ++i)
      for (Index j = 0; j < extended; ++j) {
        double want = i < dim && j < dim ? -0.5 * (static_cast<double>(4 * i + j) + 1) : 0;
        for (Index k = 0; k < rank; ++k) want += 0.3 / std::sqrt(3.0) * query[i][k] * key[j][k];
        EXPECT_NEAR(heads.at((m * extended + i) * extended + j), want, 1e-14 * (1 + std::abs(want)));
      }
  }
}

TEST(Heads, LargerModelsBeginWithTheSmaller) {
  const FeatureOptions small = with_default_scales({.heads = 10, .seed = 3}, 1);
  FeatureOptions large = small;
  large.heads = 25;
  const Array a = draw_heads(small, 3, 0, 1), b = draw_heads(large, 3, 0, 2);
  for (Index i = 0; i < a.size(); ++i) EXPECT_EQ(a.at(i), b.at(i));
}

}  // namespace
}  // namespace headlens
