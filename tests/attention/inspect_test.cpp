// Numbers of heads against their definitions; the agreement of heads against all inputs, one by one.
#include "headlens/inspect.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "headlens/error.hpp"

namespace headlens {
namespace {

constexpr double kEpsilon = 2.3e-16;

AttentionLayer layer_of(const std::vector<double>& theta, const std::vector<double>& w, Index m, Index d) {
  return make_layer(Array::from(theta, {m, d, d}), Array::from(w, {m, d, d}));
}

// Theta_i = scales[i] I, W = I.
AttentionLayer identities(const std::vector<double>& scales, Index d) {
  const Index m = static_cast<Index>(scales.size());
  AttentionLayer layer{Array(DType::f64, {m, d, d}), Array(DType::f64, {m, d, d})};
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < d; ++j) {
      layer.theta.data<double>()[(i * d + j) * d + j] = scales[static_cast<std::size_t>(i)];
      layer.w.data<double>()[(i * d + j) * d + j] = 1;
    }
  return layer;
}

TEST(SummariseHead, EqualsHandComputedNumbers) {
  // Singular values 3 and 1: the matrix is 2 I + [0 1; 1 0].
  const HeadSummary head = summarise_head(layer_of({2, 1, 1, 2}, {3, 0, 0, 4}, 1, 2), 0);
  EXPECT_NEAR(head.scale, std::sqrt(10.0), 8 * kEpsilon);
  EXPECT_NEAR(head.effective_rank, 16.0 / 10, 1e-14);
  EXPECT_DOUBLE_EQ(head.w_norm, 5);
  EXPECT_DOUBLE_EQ(head.diagonal_mean, 2);
  EXPECT_DOUBLE_EQ(head.off_diagonal_deviation, 0);
  EXPECT_NEAR(head.identity_cosine, 4 / std::sqrt(20.0), 8 * kEpsilon);
  EXPECT_DOUBLE_EQ(summarise_head(layer_of({0, 1, -3, 0}, {1, 1, 1, 1}, 1, 2), 0).off_diagonal_deviation, 2);
}

TEST(SummariseHead, RankIsThatOfTheTeacher) {
  for (const Index rank : {1, 3, 20}) {
    const HeadSummary head = summarise_head(draw_teacher({.dim = 20, .scale = 3, .rank = rank}), 1);
    EXPECT_NEAR(head.scale, 3, 1e-13);
    EXPECT_LE(head.effective_rank, static_cast<double>(rank) * (1 + 1e-6));
    EXPECT_GE(head.effective_rank, 0.5 * static_cast<double>(rank));
  }
  EXPECT_NEAR(summarise_head(draw_teacher({.dim = 20, .rank = 1}), 0).effective_rank, 1, 1e-6);
}

TEST(SummariseHead, OfOneCoordinateZeroAndExtremeNumbers) {
  const HeadSummary one = summarise_head(layer_of({-3}, {2}, 1, 1), 0);
  EXPECT_EQ(one.scale, 3);
  EXPECT_EQ(one.off_diagonal_deviation, 0);
  EXPECT_EQ(one.identity_cosine, -1);
  EXPECT_NEAR(one.effective_rank, 1, 8 * kEpsilon);
  const HeadSummary zero = summarise_head(layer_of({0, 0, 0, 0}, {0, 0, 0, 0}, 1, 2), 0);
  for (const double x : {zero.scale, zero.effective_rank, zero.w_norm, zero.identity_cosine}) EXPECT_EQ(x, 0);
  for (const double size : {1e-200, 1e200}) {
    const HeadSummary head = summarise_head(identities({size}, 4), 0);
    EXPECT_NEAR(head.scale / size, 2, 1e-14);
    EXPECT_NEAR(head.effective_rank, 4, 1e-13);
    EXPECT_NEAR(head.identity_cosine, 1, 1e-14);
  }
}

TEST(WilsonShare, SolvesItsQuadratic) {
  // The bounds are the p with |hits/n - p| = z sqrt(p (1 - p) / n).
  for (const auto& [hits, n] : std::vector<std::pair<Index, Index>>{{1, 7}, {30, 100}, {19999, 20000}}) {
    const Share share = wilson_share(hits, n);
    EXPECT_LT(share.low, share.value);
    EXPECT_GT(share.high, share.value);
    for (const double p : {share.low, share.high})
      EXPECT_NEAR(std::abs(share.value - p),
                  1.959963984540054 * std::sqrt(p * (1 - p) / static_cast<double>(n)), 1e-12);
  }
  EXPECT_EQ(wilson_share(0, 50).low, 0);
  EXPECT_EQ(wilson_share(50, 50).high, 1);
  EXPECT_NEAR(wilson_share(0, 20000).high, 1.9204e-4, 1e-8);
}

// All inputs of k tokens with d signs, each equally likely; the attention of the first token.
struct Exact {
  double alike_005 = 0, alike_01 = 0, alike_02 = 0, sparse = 0;
};

std::vector<double> attention(const AttentionLayer& layer, Index head, const std::vector<double>& x,
                              Index k) {
  const Index d = layer.dim();
  std::vector<double> p;
  double total = 0;
  for (Index b = 0; b < k; ++b) {
    double logit = 0;
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j)
        logit += x[static_cast<std::size_t>(i)] * layer.theta.at((head * d + i) * d + j) *
                 x[static_cast<std::size_t>(b * d + j)];
    p.push_back(std::exp(logit));
    total += p.back();
  }
  for (double& value : p) value /= total;
  return p;
}

Exact enumerate(const AttentionLayer& layer, Index k) {
  const Index bits = k * layer.dim();
  const double share = 1 / std::exp2(static_cast<double>(bits));
  Exact exact;
  for (Index code = 0; code < Index{1} << bits; ++code) {
    std::vector<double> x;
    for (Index j = 0; j < bits; ++j) x.push_back((code >> j & 1) != 0 ? 1 : -1);
    double widest = 0;
    std::vector<double> lowest(static_cast<std::size_t>(k), 1);  // over heads, per token
    for (Index i = 0; i < layer.heads(); ++i) {
      const std::vector<double> p = attention(layer, i, x, k);
      for (std::size_t b = 0; b < p.size(); ++b) lowest[b] = std::min(lowest[b], p[b]);
      for (Index j = 0; j < i; ++j) {
        const std::vector<double> q = attention(layer, j, x, k);
        double sum = 0;
        for (std::size_t b = 0; b < p.size(); ++b) sum += std::abs(p[b] - q[b]) / 2;
        widest = std::max(widest, sum);
      }
    }
    exact.alike_005 += widest <= 0.05 ? share : 0;
    exact.alike_01 += widest <= 0.1 ? share : 0;
    exact.alike_02 += widest <= 0.2 ? share : 0;
    for (const double p : lowest) exact.sparse += p > 0.95 ? share : 0;
  }
  return exact;
}

// Five standard deviations of a share of n independent rows: wrong once in two million.
void expect_share(const Share& share, double exact, double n) {
  EXPECT_NEAR(share.value, exact, 5 * std::sqrt(exact * (1 - exact) / n) + 1e-12);
}

TEST(Inspect, AgreementIsThatOverAllInputs) {
  for (const Index heads : {1, 2, 3})
    for (const double scale : {0.3, 3.0}) {
      const AttentionLayer layer = draw_teacher({.heads = heads, .dim = 4, .scale = scale, .seed = 5});
      const Exact exact = enumerate(layer, 3);
      const Inspection result = inspect_layer(layer, {.tokens = 3, .seed = 1}, {});
      ASSERT_TRUE(result.agreement.has_value());
      expect_share(result.agreement->alike.at(0).share, exact.alike_005, 20000);
      expect_share(result.agreement->alike.at(1).share, exact.alike_01, 20000);
      expect_share(result.agreement->alike.at(2).share, exact.alike_02, 20000);
      expect_share(result.agreement->sparse_matched, exact.sparse, 20000);
    }
}

TEST(Inspect, SharpIdentitiesMatchUnlessATokenIsRepeated) {
  const Inspection result = inspect_layer(identities({20, 30}, 6), {.tokens = 4}, {});
  expect_share(result.agreement->sparse_matched, std::pow(1 - 1.0 / 64, 3), 20000);
  EXPECT_EQ(result.agreement->alike.front().share.value, 1);
  ASSERT_TRUE(result.closest.has_value());
  EXPECT_NEAR(result.closest->distance, 1.0 / 3, 1e-15);
}

TEST(Inspect, DoesNotDependOnThreads) {
  const AttentionLayer layer = draw_teacher({.heads = 3, .dim = 6, .scale = 0.5});
  const Inspection one = inspect_layer(layer, {.samples = 3001}, {.threads = 1}),
                   five = inspect_layer(layer, {.samples = 3001}, {.threads = 5});
  for (std::size_t j = 0; j < 3; ++j)
    EXPECT_EQ(one.agreement->alike[j].share.value, five.agreement->alike[j].share.value);
  EXPECT_GT(one.agreement->alike[2].share.value, 0);
  EXPECT_EQ(one.per_head[2].effective_rank, five.per_head[2].effective_rank);
}

TEST(Inspect, CountsDistinctHeads) {
  AttentionLayer layer = identities({1, 1, 2, -4}, 3);
  std::fill_n(layer.w.data<double>() + 3 * 9, 9, 0.0);  // the last head is absent
  const Inspection result = inspect_layer(layer, {.samples = 100}, {});
  EXPECT_EQ(result.heads, 4);
  EXPECT_EQ(result.distinct_heads, 2);
  EXPECT_EQ(result.closest->a, 0);
  EXPECT_EQ(result.closest->b, 1);
  EXPECT_EQ(result.closest->distance, 0);
  EXPECT_EQ(result.agreement->alike[2].share.value,
            inspect_layer(identities({1, 2}, 3), {.samples = 100}, {}).agreement->alike[2].share.value);
}

TEST(Inspect, LayersWithLittleToSay) {
  const Inspection one = inspect_layer(identities({0}, 1), {.samples = 10}, {});
  EXPECT_FALSE(one.closest.has_value());
  EXPECT_EQ(one.agreement->alike.front().share.value, 1);  // uniform attention, one head
  EXPECT_EQ(one.agreement->sparse_matched.value, 0);
  const Inspection absent = inspect_layer(layer_of({1, 2}, {0, 0}, 2, 1), {.samples = 10}, {});
  EXPECT_EQ(absent.distinct_heads, 0);
  EXPECT_FALSE(absent.agreement.has_value());
}

TEST(Inspect, RefusesAndStops) {
  const AttentionLayer layer = identities({1, 2}, 3);
  EXPECT_THROW(inspect_layer(layer, {.tokens = 1}, {}), Error);
  EXPECT_THROW(inspect_layer(layer, {.samples = 0}, {}), Error);
  EXPECT_THROW(inspect_layer(layer, {.tokens = 1000000000}, {.max_memory_bytes = 1 << 30}), Error);
  Execution cancelled;
  cancelled.cancelled = [] { return true; };
  EXPECT_THROW(inspect_layer(layer, {}, cancelled), Error);
}

TEST(RestrictLayer, KeepsTheFirstCoordinates) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .outputs = 3});
  const AttentionLayer small = restrict_layer(layer, 4), tiny = restrict_layer(layer, 2);
  EXPECT_EQ(small.w.shape(), (std::vector<Index>{2, 4, 3}));
  EXPECT_EQ(tiny.w.shape(), (std::vector<Index>{2, 2, 2}));
  EXPECT_EQ(tiny.theta.at(1 * 4 + 1 * 2 + 0), layer.theta.at(1 * 25 + 1 * 5 + 0));
  EXPECT_EQ(tiny.w.at(1 * 4 + 1 * 2 + 1), layer.w.at(1 * 15 + 1 * 3 + 1));
  EXPECT_EQ(restrict_layer(layer, 5).theta.to_doubles(), layer.theta.to_doubles());
  EXPECT_THROW(restrict_layer(layer, 6), Error);
  EXPECT_THROW(restrict_layer(layer, 0), Error);
}

}  // namespace
}  // namespace headlens
