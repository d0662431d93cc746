// Heads of two layers, matched.
#include "headlens/match.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "headlens/error.hpp"
#include "io/files.hpp"

namespace headlens {
namespace {

AttentionLayer drawn(Index heads, std::uint64_t seed, Index rank = 2) {
  return draw_teacher({.heads = heads, .dim = 12, .rank = rank, .seed = seed});
}

LayerHeads in_factors(const AttentionLayer& layer) {
  const FactoredLayer f = factors_of(layer);
  LayerHeads out = heads_of(layer, "factors");
  out.q = f.q, out.k = f.k, out.v = f.v, out.o = f.o;
  return out;
}

TEST(Match, EveryFormOfALayerIsTheSame) {
  const AttentionLayer layer = drawn(6, 1);
  const LayerHeads dense = heads_of(layer, "dense"), factors = in_factors(layer);
  for (const LayerHeads* a : {&dense, &factors})
    for (const LayerHeads* b : {&dense, &factors}) {
      const Match match = match_heads({*a}, {*b}, {}, {});
      EXPECT_EQ(match.verdict, MatchVerdict::same);
      EXPECT_LT(match.worst_distance, 1e-13);
      ASSERT_EQ(match.heads.size(), 6U);
      for (const MatchedHead& head : match.heads) EXPECT_EQ(head.a, head.b);
    }
}

TEST(Match, HeadsWithoutAPartnerAreListed) {
  const AttentionLayer all = drawn(8, 2);
  const Index size = 12 * 12;
  const auto cut = [&](const Array& array) {
    Array out(DType::f64, {7, 12, 12});
    std::copy_n(array.data<double>() + size, 7 * size, out.data<double>());
    return out;
  };
  const LayerHeads whole = heads_of(all, "whole"), pruned = heads_of({cut(all.theta), cut(all.w)}, "pruned");
  const Match match = match_heads({whole}, {pruned}, {}, {}), back = match_heads({pruned}, {whole}, {}, {});
  EXPECT_EQ(match.verdict, MatchVerdict::derived);
  ASSERT_EQ(match.unmatched_a.size(), 1U);
  EXPECT_EQ(match.unmatched_a[0], (std::pair<Index, Index>{0, 0}));
  EXPECT_EQ(back.unmatched_b, match.unmatched_a);
  for (const MatchedHead& head : match.heads) EXPECT_EQ(head.a, head.b + 1);
}

TEST(Match, AcrossLayersHeadsAreFoundWhereverTheyWent) {
  const LayerHeads a = heads_of(drawn(6, 3), "a"), b = heads_of(drawn(6, 4), "b"),
                   c = heads_of(drawn(6, 5), "c");
  const Match match = match_heads({a, b, c}, {c, a, b}, {.across = true}, {.threads = 2});
  EXPECT_EQ(match.verdict, MatchVerdict::same);
  for (const MatchedHead& head : match.heads) {
    EXPECT_EQ(head.layer_b, (head.layer_a + 1) % 3);
    EXPECT_EQ(head.a, head.b);
  }
  ASSERT_EQ(match.table.size(), 3U);
  EXPECT_NEAR(match.table[0][1], 1, 1e-12);
  EXPECT_LT(match.table[0][0], 0.5);
  const Match in_order = match_heads({a, b}, {a, c}, {}, {});
  EXPECT_EQ(in_order.layers[0].verdict, MatchVerdict::same);
  EXPECT_EQ(in_order.layers[1].verdict, MatchVerdict::unrelated);
  EXPECT_TRUE(in_order.table.empty());
}

TEST(Match, AConstantIsAPartOfTheLayer) {
  LayerHeads a = heads_of(drawn(6, 6), "a"), b = a;
  a.constant = Array::from(std::vector<double>(12, 1.0), {12});
  b.constant = Array::from(std::vector<double>(12, 1.001), {12});
  const Match match = match_heads({a}, {b}, {}, {});
  EXPECT_EQ(match.verdict, MatchVerdict::derived);
  EXPECT_NEAR(match.layers[0].constant_distance, 1e-3, 1e-5);
}

TEST(Match, AMaskIsAPartOfTheLayer) {
  LayerHeads a = heads_of(drawn(6, 6), "a"), b = a;
  b.mask = Mask::causal;
  const Match match = match_heads({a}, {b}, {}, {});
  EXPECT_EQ(match.verdict, MatchVerdict::derived);
  EXPECT_EQ(match.layers[0].verdict, MatchVerdict::derived);
  EXPECT_NE(in_words(match).find("one layer has a causal mask"), std::string::npos);
  a.mask.reset();  // a checkpoint does not tell
  EXPECT_EQ(match_heads({a}, {b}, {}, {}).verdict, MatchVerdict::same);
}

LayerHeads times(LayerHeads layer, double factor) {
  for (Array* array : {&layer.q, &layer.v}) {
    *array = Array::from(array->to_doubles(), array->shape());
    for (Index i = 0; i < array->size(); ++i) array->data<double>()[i] *= factor;
  }
  return layer;
}

TEST(Match, RefusesNumbersWhoseSquaresOverflow) {
  for (const bool factors : {false, true}) {
    const auto layer = [&](std::uint64_t seed) {
      return factors ? in_factors(drawn(6, seed)) : heads_of(drawn(6, seed), "a");
    };
    for (const double factor : {1e200, 1e155, 1e308})
      for (const bool across : {false, true})
        test::expect_error(
            [&] {
              match_heads({times(layer(1), factor)}, {times(layer(2), factor)}, {.across = across}, {});
            },
            {"match", "of head 0 is", "too large"});
    EXPECT_EQ(match_heads({times(layer(1), 1e150)}, {times(layer(1), 1e150)}, {}, {}).verdict,
              MatchVerdict::same);
  }
  for (const double value : {1e308, std::numeric_limits<double>::quiet_NaN()}) {
    LayerHeads a = heads_of(drawn(6, 6), "a"), b = a;
    a.constant = Array::from(std::vector<double>(12, value), {12});
    b.constant = Array::from(std::vector<double>(12, -value), {12});
    test::expect_error([&] { match_heads({a}, {b}, {}, {}); }, {"constants of a and a", "too large"});
  }
}

TEST(Match, RefusesWhatCannotBeCompared) {
  const LayerHeads a = heads_of(drawn(2, 7), "a"),
                   b = heads_of(draw_teacher({.heads = 2, .dim = 9, .seed = 1}), "b");
  test::expect_error([&] { match_heads({a}, {b}, {}, {}); }, {"a has (d, e) = (12, 12)", "b has (9, 9)"});
  test::expect_error([&] { match_heads({a, a}, {a}, {}, {}); }, {"2 layers", "1;", "across"});
  LayerHeads turned = in_factors(drawn(2, 7));
  turned.rotary = Rotary{};
  test::expect_error([&] { match_heads({a}, {turned}, {}, {}); }, {"a has no rotary", "factors has"});
  LayerHeads faster = turned;
  faster.rotary->base = 500000;
  test::expect_error([&] { match_heads({turned}, {faster}, {}, {}); }, {"rotary base 10000", "has 500000"});
}

}  // namespace
}  // namespace headlens
