// Planted layers come back; everything else gets an honest verdict.
#include "headlens/recover.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

struct Plant {
  AttentionLayer layer;
  Examples examples;
};

Plant plant(Index tokens, Index dim, Index heads, double scale, Index count, std::uint64_t seed,
            double noise = 0, Inputs inputs = Inputs::signs, Index outputs = 0) {
  AttentionLayer layer =
      draw_teacher({.heads = heads, .dim = dim, .outputs = outputs, .scale = scale, .seed = seed});
  Examples examples = draw_examples(
      layer, {.count = count, .tokens = tokens, .inputs = inputs, .noise = noise, .seed = seed + 1000}, {});
  return {std::move(layer), std::move(examples)};
}

AttentionLayer join_layers(const AttentionLayer& a, const AttentionLayer& b) {
  std::vector<double> theta = a.theta.to_doubles(), w = a.w.to_doubles();
  const auto t = b.theta.to_doubles(), v = b.w.to_doubles();
  theta.insert(theta.end(), t.begin(), t.end());
  w.insert(w.end(), v.begin(), v.end());
  const Index m = a.heads() + b.heads();
  return {Array::from(theta, {m, a.dim(), a.dim()}), Array::from(w, {m, a.dim(), a.outputs()})};
}

class Shapes : public testing::TestWithParam<std::tuple<Index, Index, Index, double, Index>> {};

TEST_P(Shapes, AreRecovered) {
  const auto [k, d, m, s, n] = GetParam();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Plant given = plant(k, d, m, s, n, seed);
    const Recovery one = recover(given.examples, {.heads = m}, {.threads = 1});
    ASSERT_EQ(one.certificate.status, RecoveryStatus::recovered) << "seed " << seed;
    EXPECT_LT(compare_layers(*one.layer, given.layer).worst_error, 1e-8);
    const Plant unknown = plant(k, d, m, s, 2 * n, seed);
    const Recovery counted = recover(unknown.examples, {}, {.threads = 1});
    ASSERT_EQ(counted.certificate.status, RecoveryStatus::recovered) << "seed " << seed;
    EXPECT_EQ(counted.certificate.heads, m);
    EXPECT_LT(compare_layers(*counted.layer, unknown.layer).worst_error, 1e-8);
  }
}
INSTANTIATE_TEST_SUITE_P(Recover, Shapes,
                         testing::Values(std::tuple{4, 8, 2, 0.5, 64}, std::tuple{4, 8, 2, 8.0, 64},
                                         std::tuple{4, 8, 3, 2.0, 96}, std::tuple{6, 16, 4, 2.0, 160},
                                         std::tuple{2, 6, 1, 2.0, 100}, std::tuple{3, 1, 1, 1.0, 60}));

TEST(Recover, TakesGaussianInputsAndRectangularW) {
  for (const Index outputs : {3, 12}) {
    const Plant p = plant(5, 7, 3, 2, 260, 4, 0, Inputs::gaussian, outputs);
    const Recovery r = recover(p.examples, {}, {});
    ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered);
    EXPECT_LT(compare_layers(*r.layer, p.layer).worst_error, 1e-8);
  }
}

// Labels and tokens in any unit: y -> a y scales W by a, x -> x / 2^b scales W by 2^b and Theta by 4^b.
TEST(Recover, TakesAnyUnit) {
  for (const auto& [labels, tokens] : {std::pair{1e-30, 1.0}, {1e30, 1.0}, {1.0, 0x1p-20}, {1e-3, 0x1p20}}) {
    Plant p = plant(4, 8, 2, 2, 100, 6);
    for (Index i = 0; i < p.examples.y.size(); ++i) p.examples.y.data<double>()[i] *= labels;
    for (Index i = 0; i < p.examples.x.size(); ++i) p.examples.x.data<double>()[i] *= tokens;
    for (Index i = 0; i < p.layer.w.size(); ++i) p.layer.w.data<double>()[i] *= labels / tokens;
    for (Index i = 0; i < p.layer.theta.size(); ++i) p.layer.theta.data<double>()[i] /= tokens * tokens;
    const Recovery r = recover(p.examples, {.heads = 2}, {});
    ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered) << labels << " " << tokens;
    EXPECT_LT(compare_layers(*r.layer, p.layer).worst_error, 1e-8);
  }
}

TEST(Recover, DoesNotDependOnThreads) {
  const Plant p = plant(6, 16, 3, 2, 300, 4);
  const Recovery one = recover(p.examples, {.heads = 3}, {.threads = 1});
  const Recovery three = recover(p.examples, {.heads = 3}, {.threads = 3});
  EXPECT_EQ(one.layer->theta.to_doubles(), three.layer->theta.to_doubles());
  EXPECT_EQ(one.layer->w.to_doubles(), three.layer->w.to_doubles());
}

// The error of a parameter falls with the noise; the error bars of a linear fit say by how much, up to a
// constant.
TEST(Recover, ReachesTheNoiseFloorAndSaysSo) {
  for (const double noise : {1e-1, 1e-2, 1e-4}) {
    const Plant p = plant(4, 8, 2, 2, 300, 5, noise);
    for (const std::optional<Index> heads : {std::optional<Index>(), std::optional<Index>(2)}) {
      const Recovery r = recover(p.examples, {.heads = heads}, {});
      ASSERT_EQ(r.certificate.status, RecoveryStatus::approximate) << noise;
      EXPECT_EQ(r.certificate.heads, 2);
      EXPECT_LT(compare_layers(*r.layer, p.layer).worst_error, noise);
    }
  }
}

TEST(Recover, MergesEqualHeadsAndDropsAbsentOnes) {
  const AttentionLayer two = draw_teacher({.heads = 2, .dim = 8, .seed = 6});
  AttentionLayer again = draw_teacher({.heads = 1, .dim = 8, .seed = 6});  // the first head once more
  for (Index i = 0; i < again.w.size(); ++i) again.w.data<double>()[i] *= 0.5;
  AttentionLayer absent = draw_teacher({.heads = 1, .dim = 8, .seed = 7});
  for (Index i = 0; i < absent.w.size(); ++i) absent.w.data<double>()[i] = 0;
  for (const AttentionLayer& layer : {join_layers(two, again), join_layers(two, absent)})
    for (const std::optional<Index> heads : {std::optional<Index>(), std::optional<Index>(3)}) {
      const Examples examples = draw_examples(layer, {.count = 240, .tokens = 4}, {});
      const Recovery r = recover(examples, {.heads = heads}, {});
      ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered);
      EXPECT_EQ(r.certificate.heads, 2);
      EXPECT_LT(compare_layers(*r.layer, layer).worst_error, 1e-8);
    }
}

void expect_verdict(const Examples& examples, const RecoverOptions& options, RecoveryStatus status) {
  const Recovery r = recover(examples, options, {});
  EXPECT_EQ(name(r.certificate.status), name(status));
  EXPECT_FALSE(r.layer.has_value());
}

TEST(Verdict, TooFewExamples) {
  expect_verdict(plant(4, 8, 2, 2, 16, 1).examples, {}, RecoveryStatus::needs_more_examples);
  expect_verdict(plant(4, 8, 2, 2, 16, 1).examples, {.heads = 2}, RecoveryStatus::needs_more_examples);
  expect_verdict(plant(4, 8, 2, 2, 1, 1).examples, {}, RecoveryStatus::needs_more_examples);
}

TEST(Verdict, MoreHeadsThanAllowed) {
  expect_verdict(plant(4, 8, 5, 2, 400, 2).examples, {.max_heads = 2}, RecoveryStatus::not_identified);
  expect_verdict(plant(4, 8, 5, 2, 400, 2).examples, {.heads = 2}, RecoveryStatus::not_identified);
}

TEST(Verdict, ACoordinateThatNeverVaries) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 8});
  Examples examples = draw_examples(layer, {.count = 200, .tokens = 4}, {});
  for (Index i = 0; i < 800; ++i) examples.x.data<double>()[i * 8 + 3] = 1;
  examples.y = apply_layer(layer, examples.x, {});
  expect_verdict(examples, {},
                 RecoveryStatus::not_identified);  // fits perfectly, but Theta is not determined
}

TEST(Verdict, LabelsThatAreNotOfALayer) {
  Examples noise = plant(4, 8, 2, 2, 200, 3).examples;
  Stream stream(1, "noise");
  for (Index i = 0; i < noise.y.size(); ++i) noise.y.data<double>()[i] = stream.normal();
  expect_verdict(noise, {}, RecoveryStatus::not_identified);
  expect_verdict(noise, {.heads = 2}, RecoveryStatus::not_identified);
  Examples cubes = plant(4, 8, 1, 0, 240, 3).examples;  // uniform attention, then an elementwise cube
  for (Index i = 0; i < cubes.y.size(); ++i)
    cubes.y.data<double>()[i] = std::pow(cubes.y.data<double>()[i], 3);
  expect_verdict(cubes, {}, RecoveryStatus::not_identified);
  Examples zero = plant(4, 8, 1, 2, 100, 3).examples;
  for (Index i = 0; i < zero.y.size(); ++i) zero.y.data<double>()[i] = 0;
  expect_verdict(zero, {}, RecoveryStatus::not_identified);
}

TEST(Verdict, TimeLimitAndCancellation) {
  const Plant p = plant(8, 24, 4, 2, 300, 1);
  const Recovery r = recover(p.examples, {.heads = 4, .time_limit_seconds = 1e-3}, {});
  EXPECT_EQ(r.certificate.status, RecoveryStatus::stalled);
  EXPECT_FALSE(r.layer.has_value());
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW((void)recover(p.examples, {}, execution), Error);
  EXPECT_THROW((void)recover(p.examples, {}, {.max_memory_bytes = 1000}), Error);
  EXPECT_THROW((void)recover(p.examples, {.heads = 0}, {}), Error);
}

}  // namespace
}  // namespace headlens
