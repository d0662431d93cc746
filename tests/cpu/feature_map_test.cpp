// Every instance of the feature map against the reference, and its independence of how the work is cut.
#include "cpu/features/feature_map.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "backend/design.hpp"
#include "cpu/levels.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "reference/features.hpp"
#include "reference/random_sets.hpp"

namespace headlens::cpu {
namespace {

using namespace reference;

template <class T>
Precision precision_of() {
  return sizeof(T) == 4 ? Precision::f32 : Precision::f64;
}

template <class T>
Matrix<T> compute(const FeatureMap<T>& map, const Sets& sets, int threads = 1) {
  Matrix<T> out(sets.count(), map.columns());
  map.compute(sets, 0, sets.count(), out, threads);
  return out;
}

// The score is a sum of D^2 products and the feature a sum of N more; softmax and exp multiply the score's
// error by its size. Backward error: (D^2 + N + 8) eps times the sums of absolute values, which `magnitude`
// bounds.
template <class T>
void expect_matches_reference(const Sets& sets, FeatureOptions options, SimdLevel level) {
  options = with_default_scales(options, sets.max_keys());
  options.precision = precision_of<T>();
  const Array heads = draw_heads(options, sets.dim(), 0, 1);
  const auto map = FeatureMap<T>::make(options, sets.dim(), 0, heads, level);
  const Matrix<T> phi = compute(*map, sets);
  const double D = static_cast<double>(sets.dim() + 1);
  for (Index s = 0; s < sets.count(); ++s) {
    const PlainSet set = plain_set(sets, s, options.positions);
    for (Index m = 0; m < options.heads; ++m) {
      const std::vector<Real> want = head_features(set, heads, m, options.score);
      double magnitude = 1;
      for (const Real x : want) magnitude = std::max(magnitude, static_cast<double>(std::abs(x)));
      const double N = static_cast<double>(set.keys.size());
      double norm = 0;
      for (const auto& key : set.keys)
        for (const double x : key) norm = std::max(norm, std::abs(x));
      const double bound =
          (D * D + N + 8) * std::numeric_limits<T>::epsilon() * magnitude * (1 + norm) * (1 + norm) * 4;
      for (Index j = 0; j <= sets.dim(); ++j)
        EXPECT_NEAR(static_cast<double>(phi(s, map->column_of(m, j))),
                    static_cast<double>(want[static_cast<std::size_t>(j)]), bound)
            << name(level) << " " << name(options.score) << " set " << s << " head " << m << " coordinate "
            << j;
    }
  }
}

class Shapes : public testing::TestWithParam<std::tuple<Index, Index, Index>> {};

TEST_P(Shapes, AgreeWithTheReference) {
  const auto [dim, keys, heads] = GetParam();
  for (const SimdLevel level : levels())
    for (const Score score : {Score::relu, Score::softmax, Score::exp, Score::step}) {
      const FeatureOptions options{
          .heads = heads, .weight_scale = 0.5 / std::sqrt(static_cast<double>(dim)), .score = score};
      expect_matches_reference<double>(ragged_sets<double>(14, keys, dim, 1), options, level);
      expect_matches_reference<float>(ragged_sets<float>(14, keys, dim, 2), options, level);
    }
}
INSTANTIATE_TEST_SUITE_P(FeatureMap, Shapes,
                         testing::Values(std::tuple{1, 1, 1}, std::tuple{1, 5, 17}, std::tuple{2, 3, 16},
                                         std::tuple{8, 4, 5}, std::tuple{13, 33, 20}, std::tuple{16, 16, 32},
                                         std::tuple{31, 7, 3}, std::tuple{2, 3, 300}));

TEST(FeatureMap, AddsPositions) {
  for (const SimdLevel level : levels())
    expect_matches_reference<double>(ragged_sets<double>(5, 6, 4, 3),
                                     {.heads = 5, .positions = Positions::sinusoidal}, level);
}

TEST(FeatureMap, ReadsSequences) {
  const Sets sets = Sets::from_sequence(normal_array<double>({3, 5, 4}, 9));
  EXPECT_EQ(sets.count(), 15);
  for (const Positions positions : {Positions::none, Positions::sinusoidal})
    expect_matches_reference<double>(sets, {.heads = 6, .positions = positions}, simd_level());
}

TEST(FeatureMap, MlpAgreesWithTheReference) {
  const Sets sets = equal_sets<double>(70, 3, 5, 4);
  const FeatureOptions options = with_default_scales({.kind = ModelKind::mlp, .heads = 300}, 3);
  const Array neurons = draw_heads(options, 5, 3, 1);
  const auto map = FeatureMap<double>::make(options, 5, 3, neurons);
  const Matrix<double> phi = compute(*map, sets, 2);
  for (Index s = 0; s < sets.count(); ++s)
    for (Index m = 0; m < 300; ++m)
      EXPECT_NEAR(phi(s, map->column_of(m, 0)),
                  static_cast<double>(neuron_feature(plain_set(sets, s, Positions::none), neurons, m)),
                  1e-13);
}

TEST(FeatureMap, MlpRefusesOtherSetSizes) {
  const FeatureOptions options = with_default_scales({.kind = ModelKind::mlp, .heads = 4}, 3);
  const auto map = FeatureMap<double>::make(options, 5, 3, draw_heads(options, 5, 3, 1));
  Matrix<double> out(9, map->columns());
  const Sets sets = ragged_sets<double>(9, 6, 5, 1);
  EXPECT_THROW(map->compute(sets, 0, 9, out, 1), Error);
}

// Bitwise: rows do not depend on threads, on the range they are computed in, or on the columns asked for.
TEST(FeatureMap, DoesNotDependOnTheCut) {
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::mlp}) {
    const Sets sets = equal_sets<float>(333, 4, 7, 6);
    FeatureOptions options{.kind = kind, .heads = 600, .precision = Precision::f32};
    options = with_default_scales(options, 4);
    const auto map = FeatureMap<float>::make(options, 7, 4, draw_heads(options, 7, 4, 1));
    const Matrix<float> whole = compute(*map, sets, 1), threaded = compute(*map, sets, 3);
    const Index first = 128, last = 200, width = map->block_columns(), blocks = map->blocks();
    Matrix<float> part(last - first, width);
    map->compute(sets, first, last, blocks - 1, blocks, part, 2);
    for (Index i = 0; i < sets.count(); ++i)
      for (Index j = 0; j < map->columns(); ++j) {
        ASSERT_EQ(whole(i, j), threaded(i, j));
        const Index column = j - (blocks - 1) * width;
        if (i >= first && i < last && column >= 0) {
          ASSERT_EQ(whole(i, j), part(i - first, column));
        }
      }
  }
}

// AVX2 and AVX-512 do the same operations in the same order, so they give the same bits.
TEST(FeatureMap, VectorWidthsAgreeBitwise) {
  if (simd_level() < SimdLevel::avx512) GTEST_SKIP() << "needs AVX-512";
  const Sets sets = ragged_sets<float>(40, 20, 9, 6);
  const FeatureOptions options = with_default_scales({.heads = 40, .precision = Precision::f32}, 1);
  const Array heads = draw_heads(options, 9, 0, 1);
  const Matrix<float> a = compute(*FeatureMap<float>::make(options, 9, 0, heads, SimdLevel::avx2), sets);
  const Matrix<float> b = compute(*FeatureMap<float>::make(options, 9, 0, heads, SimdLevel::avx512), sets);
  for (Index i = 0; i < a.rows() * a.cols(); ++i) ASSERT_EQ(a.data()[i], b.data()[i]);
}

// Phi V as plain sums over the features that compute() gives. p products of magnitude |phi v|, in double.
template <class T>
void expect_multiplies(ModelKind kind, const Sets& sets, SimdLevel level) {
  FeatureOptions options{.kind = kind, .heads = 50, .precision = precision_of<T>()};
  options = with_default_scales(options, sets.max_keys());
  const Array heads = draw_heads(options, sets.dim(), sets.max_keys(), 1);
  const auto map = FeatureMap<T>::make(options, sets.dim(), sets.max_keys(), heads, level);
  const Matrix<T> phi = compute(*map, sets);
  const Index n = sets.count(), q = 3;
  const Array v = normal_array<double>({q, map->columns()}, 5);
  Matrix<double> values(q, map->columns());
  std::copy_n(v.data<double>(), v.size(), values.data());
  Matrix<double> whole(n, q), part(n - map->tile_sets(), q);
  map->multiply(sets, 0, n, values, whole);
  map->multiply(sets, map->tile_sets(), n, values, part);
  for (Index i = 0; i < n; ++i)
    for (Index c = 0; c < q; ++c) {
      double want = 0, magnitude = 0;
      for (Index j = 0; j < map->columns(); ++j) {
        want += static_cast<double>(phi(i, j)) * values(c, j);
        magnitude += std::abs(static_cast<double>(phi(i, j)) * values(c, j));
      }
      const double bound = 2e-16 * static_cast<double>(map->columns()) * magnitude;
      EXPECT_NEAR(whole(i, c), want, bound) << name(level) << " " << name(kind);
      if (i >= map->tile_sets()) {
        EXPECT_EQ(whole(i, c), part(i - map->tile_sets(), c));
      }
    }
}

TEST(FeatureMap, MultipliesWithValues) {
  for (const SimdLevel level : levels()) {
    expect_multiplies<float>(ModelKind::rfa, ragged_sets<float>(133, 9, 7, 1), level);
    expect_multiplies<double>(ModelKind::rfa, ragged_sets<double>(133, 9, 7, 1), level);
  }
  expect_multiplies<float>(ModelKind::mlp, equal_sets<float>(133, 4, 7, 1), simd_level());
  expect_multiplies<double>(ModelKind::mlp, equal_sets<double>(133, 4, 7, 1), simd_level());
}

TEST(FeatureMap, PaddingIsZero) {
  const Sets sets = ragged_sets<double>(6, 3, 2, 6);
  for (const Score score : {Score::relu, Score::softmax, Score::exp}) {
    const FeatureOptions options = with_default_scales({.heads = 5, .score = score}, 1);
    const auto map = FeatureMap<double>::make(options, 2, 0, draw_heads(options, 2, 0, 1));
    const Matrix<double> phi = compute(*map, sets);
    const std::vector<Index> head = backend::heads_of_columns(*map);
    Index padded = 0;
    for (Index j = 0; j < map->columns(); ++j)
      for (Index i = 0; head[static_cast<std::size_t>(j)] < 0 && i < 6; ++i, ++padded)
        EXPECT_EQ(phi(i, j), 0.0);
    EXPECT_EQ(padded, 6 * 3 * 11);
  }
}

TEST(FeatureMap, OverflowIsAnErrorInEveryInstance) {
  for (const SimdLevel level : levels())
    for (const Score score : {Score::relu, Score::softmax, Score::exp}) {
      const FeatureOptions options = with_default_scales({.heads = 5, .score = score}, 1);
      const Sets sets = Sets::from_arrays(normal_array<double>({3, 2}, 1, 1e200),
                                          normal_array<double>({3, 4, 2}, 2, 1e200));
      const auto map = FeatureMap<double>::make(options, 2, 0, draw_heads(options, 2, 0, 1), level);
      Matrix<double> out(3, map->columns());
      EXPECT_THROW(map->compute(sets, 0, 3, out, 1), Error) << name(level) << " " << name(score);
    }
}

}  // namespace
}  // namespace headlens::cpu
