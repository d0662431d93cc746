// P-values of matches: against simulations of what they claim, and over families of unrelated layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "match/unrelated.hpp"

namespace headlens {
namespace {

using matching::chance_beyond;
using matching::chance_of_rotations;

TEST(Unrelated, ChanceBeyondIsThatOfSimulatedPairs) {
  constexpr Index draws = 20000;
  for (const auto& [pairs, rivals, null_pairs] : {std::tuple{3, 3, 6}, {6, 6, 30}, {4, 9, 20}}) {
    std::vector<double> counts(static_cast<std::size_t>(pairs) + 1);
    for (Index i = 0; i < draws; ++i) {
      Stream stream(1, "beyond", static_cast<std::uint64_t>(i));
      double largest = 0;
      for (Index j = 0; j < null_pairs; ++j) largest = std::max(largest, stream.uniform());
      Index beyond = 0;
      for (Index j = 0; j < pairs; ++j) {
        double best = 0;
        for (Index k = 0; k < rivals; ++k) best = std::max(best, stream.uniform());
        beyond += best > largest;
      }
      for (Index k = 0; k <= beyond; ++k) ++counts[static_cast<std::size_t>(k)];
    }
    for (Index k = 0; k <= pairs; ++k) {
      const double p = chance_beyond(pairs, rivals, null_pairs, k);
      // Four standard errors: one false alarm in 15000 comparisons.
      EXPECT_NEAR(counts[static_cast<std::size_t>(k)] / draws, p, 4 * std::sqrt(p * (1 - p) / draws) + 1e-12)
          << k;
    }
  }
}

LayerHeads unrelated_heads(Index m, Index d, Index r, double stretch, std::uint64_t seed) {
  LayerHeads out;
  std::uint64_t part = 0;
  for (Array* array : {&out.q, &out.k, &out.v, &out.o}) {
    *array = Array(DType::f64, array == &out.o ? std::vector<Index>{m, r, d} : std::vector<Index>{m, d, r});
    Stream stream(seed, "unrelated", part++);
    for (Index i = 0; i < array->size(); ++i) {
      const Index coordinate = array == &out.o ? i % d : i / r % d;
      array->data<double>()[i] = stream.normal() * std::exp(-stretch * static_cast<double>(coordinate));
    }
  }
  return out;
}

// A p-value is calibrated if it is below a level no more often than the level says. `stretch` makes some
// coordinates much larger than others, so that unrelated heads overlap: rotations would call them related.
TEST(Unrelated, PValuesOfUnrelatedLayersAreCalibrated) {
  constexpr Index draws = 400;
  for (const Index m : {6, 10})
    for (const double stretch : {0.0, 0.3}) {
      std::vector<double> p;
      for (Index i = 0; i < draws; ++i) {
        const auto seed = static_cast<std::uint64_t>(2 * i);
        const Match match = match_heads({unrelated_heads(m, 16, 3, stretch, seed)},
                                        {unrelated_heads(m, 16, 3, stretch, seed + 1)}, {}, {.threads = 1});
        EXPECT_EQ(match.null, MatchNull::heads_of_a_layer);
        p.push_back(match.p_value);
      }
      for (const double level : {0.01, 0.05, 0.2}) {
        const auto below =
            static_cast<double>(std::ranges::count_if(p, [&](double x) { return x <= level; }));
        // Three standard errors above the level.
        EXPECT_LE(below / draws, level + 3 * std::sqrt(level * (1 - level) / draws)) << m << " " << stretch;
      }
      // And not idle: a p-value that is always 1 would pass the lines above.
      EXPECT_GT(std::ranges::count_if(p, [](double x) { return x <= 0.6; }), draws / 5);
    }
}

TEST(Unrelated, FewHeadsAreComparedWithRotations) {
  constexpr Index draws = 400;
  for (const Index m : {1, 3}) {
    Index below = 0;
    for (Index i = 0; i < draws; ++i) {
      const auto seed = static_cast<std::uint64_t>(1000 + 2 * i);
      const Match match = match_heads({unrelated_heads(m, 8, 2, 0, seed)},
                                      {unrelated_heads(m, 8, 2, 0, seed + 1)}, {}, {.threads = 1});
      EXPECT_EQ(match.null, MatchNull::rotations);
      below += match.p_value <= 0.05;
    }
    EXPECT_LE(below, 0.05 * draws + 3 * std::sqrt(0.05 * draws));
    LayerHeads a = unrelated_heads(m, 8, 2, 0, 5), b = a;
    b.q = Array::from(a.q.to_doubles(), a.q.shape());
    b.q.data<double>()[0] += 0.1;
    EXPECT_EQ(match_heads({a}, {b}, {}, {}).verdict, MatchVerdict::derived);
  }
}

}  // namespace
}  // namespace headlens
