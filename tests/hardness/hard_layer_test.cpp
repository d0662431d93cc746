// Built layers against their labels, and labels against the formulas that they stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens {
namespace {

// Every pair of sign tokens.
Array all_pairs(Index d) {
  const Index total = Index{1} << (2 * d);
  Array x(DType::f64, {total, 2, d});
  for (Index i = 0; i < x.size(); ++i) x.data<double>()[i] = (i / (2 * d) >> (i % (2 * d))) & 1 ? -1 : 1;
  return x;
}

// Largest |layer - label| over both output rows.
double worst_miss(const HardLayer& hard, const Array& x) {
  const Array y = apply_layer(hard.layer, x, {});
  const Index d = x.dim(2);
  double worst = 0;
  for (Index i = 0; i < x.dim(0); ++i)
    for (Index a = 0; a < 2; ++a) {
      const double* pair = x.data<double>() + i * 2 * d;
      const double label = hard.label(pair + a * d, pair + (1 - a) * d);
      worst = std::max(worst, std::abs(y.data<double>()[i * 2 + a] - label));
    }
  return worst;
}

// c ((-1)^t - (-1)^s), with (-1)^t as the product of the hidden bits.
double parity_formula(const std::vector<std::int64_t>& u, const double* x, const double* other) {
  double product = 1, sign = 1;
  for (std::size_t j = 0; j < u.size(); ++j)
    if (u[j] == 1) product *= x[j] * other[j], sign = -sign;
  return (x[0] - other[0]) / 2 * (product - sign);
}

TEST(HardParity, EqualsItsLabelOnAllInputs) {
  const Array x = all_pairs(6);
  for (const Index s : {1, 2, 3, 5})
    for (const double sharpness : {12.0, 40.0, 100.0}) {
      const HardLayer hard = draw_hard_layer(
          {.dim = 6, .size = s, .sharpness = sharpness, .seed = static_cast<std::uint64_t>(s)});
      ASSERT_EQ(hard.layer.heads(), 2 * s);
      const double miss = worst_miss(hard, x);
      EXPECT_LE(miss, hard.label.tolerance) << "s = " << s << ", sharpness = " << sharpness;
      // The bound is no exaggeration: the nearest two jumps are missed by 2 exp(-beta/2) each, less what
      // their opposite signs cancel.
      if (sharpness == 12) {
        EXPECT_GT(miss, hard.label.tolerance / (20 * static_cast<double>(s)));
      }
      EXPECT_NEAR(hard.label.tolerance, 4 * static_cast<double>(s) * std::exp(-sharpness / 2), 1e-12);
    }
}

TEST(HardParity, LabelIsTheParityOfTheHiddenBits) {
  const Array x = all_pairs(6);
  for (const Index s : {1, 2, 3, 4}) {
    const HardLayer hard = draw_hard_layer({.dim = 6, .size = s, .seed = 9});
    EXPECT_EQ(hard.label.at_rest, 0);
    Index at_rest = 0;
    for (Index i = 0; i < x.dim(0); ++i) {
      const double* pair = x.data<double>() + i * 12;
      ASSERT_EQ(hard.label(pair, pair + 6), parity_formula(hard.label.weights, pair, pair + 6));
      at_rest += pair[0] == pair[6];
    }
    EXPECT_EQ(at_rest, x.dim(0) / 2);
  }
}

TEST(HardParity, HoldsOnSamplesOfManyCoordinates) {
  const HardLayer hard = draw_hard_layer({.dim = 30, .size = 5, .seed = 4});
  const Examples examples = draw_hard_examples(hard, {.count = 20000, .tokens = 2, .seed = 5}, 0, {});
  EXPECT_LE(worst_miss(hard, examples.x), hard.label.tolerance);
  EXPECT_LT(hard.label.tolerance, 1e-7);
}

TEST(HardRounding, EqualsItsLabelOnAllInputs) {
  const Array x = all_pairs(6);
  for (const auto& [modulus, levels] : {std::pair<Index, Index>{2, 2}, {3, 2}, {4, 2}, {5, 3}, {4, 4}}) {
    const HardLayer hard = draw_hard_layer({.kind = HardKind::rounding,
                                            .dim = 6,
                                            .size = 5,
                                            .modulus = modulus,
                                            .levels = levels,
                                            .sharpness = 30,
                                            .seed = 2});
    EXPECT_LE(worst_miss(hard, x), hard.label.tolerance) << modulus << " " << levels;
  }
}

TEST(HardRounding, RoundsHalvesUpAndWrapsAround) {
  // r (t mod q) / q for q = 4, r = 2: 0, 1/2, 1, 3/2.
  EXPECT_EQ(rounding_steps(4, 4, 2), (std::vector<double>{0, 1, 1, 0, 0, 1, 1, 0, 0}));
  // q = 5, r = 3: 0, .6, 1.2, 1.8, 2.4
  EXPECT_EQ(rounding_steps(3, 5, 3), (std::vector<double>{1, 2, 2, 0, 1, 1, 2}));
}

// Weights of any sign and size, any steps: the offset and all three values of c by their formulas.
TEST(StepLayer, WritesAnyFunctionUpToItsConstant) {
  const std::vector<std::int64_t> u{0, 2, -1, 0, 1};
  const std::vector<double> g{3, 3, -1, 0.5, 7, 7, 2, 2, -4};
  const HardLayer hard = step_layer(u, g, 60);
  EXPECT_EQ(hard.layer.heads(), 5);  // a head a jump
  EXPECT_EQ(hard.label.at_rest, -3.5);
  const Array x = all_pairs(5);
  EXPECT_LE(worst_miss(hard, x), hard.label.tolerance);
  for (Index i = 0; i < x.dim(0); ++i) {
    const double *a = x.data<double>() + i * 10, *b = a + 5;
    double t = 0;
    for (std::size_t j = 0; j < 5; ++j) t += static_cast<double>(u[j]) * (a[j] - b[j]) / 2;
    const double c = (a[0] - b[0]) / 2;
    const double expected = c == 1    ? g[static_cast<std::size_t>(t + 4)] + 0.5
                            : c == -1 ? -(g[static_cast<std::size_t>(4 - t)] + 0.5)
                                      : a[0] * -3.5;
    ASSERT_EQ(hard.label(a, b), expected);
  }
}

TEST(StepLayer, RefusesWhatHidesNothing) {
  EXPECT_THROW(step_layer({0, 1}, {2, 2, 2}, 40), Error);
  EXPECT_THROW(step_layer({1, 1}, {0, 1, 0, 1, 0}, 40), Error);  // the control is taken
  EXPECT_THROW(step_layer({0, 1}, {0, 1}, 40), Error);
  EXPECT_THROW(step_layer({0, 1}, {0, 1, 0}, 0), Error);
  EXPECT_THROW(draw_hard_layer({.dim = 4, .size = 4}), Error);
  EXPECT_THROW(draw_hard_layer({.kind = HardKind::rounding, .size = 1, .modulus = 20}), Error);
}

TEST(HardExamples, FlipsTurnTheHiddenBitOfAShare) {
  const HardLayer hard = draw_hard_layer({.dim = 10, .size = 3, .seed = 1});
  const ExampleOptions options{.count = 4000, .tokens = 2, .seed = 7};
  const Examples clean = draw_hard_examples(hard, options, 0, {}),
                 flipped = draw_hard_examples(hard, options, 0.05, {});
  Index changed = 0, active = 0;
  for (Index i = 0; i < clean.count(); ++i) {
    const double* x = clean.x.data<double>() + i * 20;
    const double c = (x[0] - x[10]) / 2, before = clean.y.data<double>()[2 * i],
                 after = flipped.y.data<double>()[2 * i];
    active += c != 0;
    if (std::abs(after - before) < 1e-6) continue;
    ++changed;
    // c (chi + 1) and c (-chi + 1) add up to 2 c.
    EXPECT_NEAR(before + after, 2 * c, 1e-6);
    EXPECT_NEAR(flipped.y.data<double>()[2 * i + 1], -after, 1e-6);
  }
  EXPECT_NEAR(static_cast<double>(changed) / static_cast<double>(active), 0.05,
              5 * std::sqrt(0.05 * 0.95 / 2000));
  EXPECT_TRUE(
      std::equal(clean.x.data<double>(), clean.x.data<double>() + clean.x.size(), flipped.x.data<double>()));
}

TEST(HardLayerFile, KeepsTheLabelAndIsALayer) {
  const auto path = std::filesystem::temp_directory_path() / "headlens-hard-layer-test.npz";
  const HardLayer hard = draw_hard_layer({.dim = 7, .size = 2, .seed = 3});
  save_hard_layer(path, hard);
  const auto label = load_label(path, {});
  ASSERT_TRUE(label.has_value());
  EXPECT_EQ(label->weights, hard.label.weights);
  EXPECT_EQ(label->steps, hard.label.steps);
  EXPECT_EQ(label->tolerance, hard.label.tolerance);
  EXPECT_EQ(compare_layers(load_layer(path, {}), hard.layer).worst_error, 0);
  save_layer(path, hard.layer);
  EXPECT_FALSE(load_label(path, {}).has_value());
  NamedArrays broken{{"hidden", Array::from<std::int64_t>({0, 1, 1}, {3})}};
  write_npz(path, broken);
  EXPECT_THROW(static_cast<void>(load_label(path, {})), Error);
  // The label of another layer, which has fewer coordinates.
  save_hard_layer(path, {draw_hard_layer({.dim = 6, .size = 2}).layer, hard.label});
  EXPECT_THROW(static_cast<void>(load_label(path, {})), Error);
  std::filesystem::remove(path);
}

TEST(SqDimension, CountsTheRivals) {
  EXPECT_EQ(binomial(23, 3), 1771);
  EXPECT_EQ(binomial(5, 0), 1);
  EXPECT_EQ(binomial(4, 7), 0);
  EXPECT_EQ(binomial(50, 25), 126410606437752.0);
  EXPECT_EQ(sq_dimension(draw_hard_layer({.dim = 24, .size = 3}).label), 1771);
  EXPECT_FALSE(sq_dimension(draw_hard_layer({.kind = HardKind::rounding, .size = 8, .modulus = 5}).label));
}

// Two different sets: labels without their known part are orthogonal.
TEST(SqDimension, RivalsAreOrthogonal) {
  const Array x = all_pairs(5);
  const HardLayer a = parity_layer(5, {1, 2}, 40), b = parity_layer(5, {1, 3}, 40);
  double product = 0, square = 0;
  for (Index i = 0; i < x.dim(0); ++i) {
    const double* pair = x.data<double>() + i * 10;
    const double known = (pair[0] - pair[5]) / 2;
    const double first = a.label(pair, pair + 5) + known, second = b.label(pair, pair + 5) + known;
    product += first * second;
    square += first * first;
  }
  EXPECT_EQ(product, 0);
  EXPECT_EQ(square, 512);
}

}  // namespace
}  // namespace headlens
