// Coefficients against their definition, and what a hard layer hides against the theorem.
#include "headlens/fourier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens {
namespace {

// The mean of F chi_S over all inputs, one by one.
double by_definition(const AttentionLayer& layer, const std::int64_t* subset, Index degree, Index output) {
  const Index d = layer.dim(), total = Index{1} << (2 * d);
  Array x(DType::f64, {total, 2, d});
  for (Index i = 0; i < x.size(); ++i) x.data<double>()[i] = (i / (2 * d) >> (i % (2 * d))) & 1 ? -1 : 1;
  const Array y = apply_layer(layer, x, {});
  double sum = 0;
  for (Index i = 0; i < total; ++i) {
    double chi = 1;
    for (Index k = 0; k < degree && subset[k] >= 0; ++k) chi *= x.data<double>()[i * 2 * d + subset[k]];
    sum += chi * y.data<double>()[i * 2 * layer.outputs() + output];
  }
  return sum / static_cast<double>(total);
}

TEST(Fourier, EqualsTheDefinitionOnAGenericLayer) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 3, .outputs = 2, .seed = 5});
  const Fourier fourier = fourier_coefficients(layer, {.degree = 6}, {});
  ASSERT_TRUE(fourier.exact);
  ASSERT_EQ(fourier.subsets.dim(0), 64);
  for (Index row = 0; row < 64; ++row)
    for (Index c = 0; c < 2; ++c)
      EXPECT_NEAR(fourier.values.data<double>()[row * 2 + c],
                  by_definition(layer, fourier.subsets.data<std::int64_t>() + row * 6, 6, c), 1e-15);
}

// Parseval: the squares add up to the mean square of the outputs.
TEST(Fourier, WeightsAddUp) {
  const AttentionLayer layer = draw_teacher({.heads = 3, .dim = 4, .seed = 6});
  double weight = 0, square = 0;
  for (const FourierLevel& level :
       fourier_levels(fourier_coefficients(layer, {.degree = 8}, {}), 4, FourierPart::everything))
    weight += level.weight;
  Array x(DType::f64, {256, 2, 4});
  for (Index i = 0; i < x.size(); ++i) x.data<double>()[i] = (i / 8 >> (i % 8)) & 1 ? -1 : 1;
  const Array y = apply_layer(layer, x, {});
  for (Index i = 0; i < 256; ++i)
    for (Index c = 0; c < 4; ++c) square += std::pow(y.data<double>()[i * 8 + c], 2) / 256;
  EXPECT_NEAR(weight, square, 1e-13 * square);
}

TEST(Fourier, HiddenComponentOfAParityHasNoLowDegree) {
  // Sharpness 100: exp(-50) is below rounding, so outputs are integers and every sum is exact.
  const HardLayer hard = draw_hard_layer({.dim = 6, .size = 2, .sharpness = 100, .seed = 8});
  const Fourier fourier = fourier_coefficients(hard.layer, {.degree = 12}, {});
  const auto levels = fourier_levels(fourier, 6, FourierPart::hidden);
  for (const FourierLevel& level : levels) {
    EXPECT_EQ(level.largest, level.degree == 5 ? 0.5 : 0.0) << "degree " << level.degree;
    EXPECT_EQ(level.weight, level.degree == 5 ? 0.5 : 0.0) << "degree " << level.degree;
  }
  // What is not hidden: -c, the constant of the steps.
  const auto all = fourier_levels(fourier, 6, FourierPart::everything);
  EXPECT_EQ(all[1].weight, 0.5);
  EXPECT_EQ(all[0].weight, 0.0);
}

TEST(Fourier, FiniteSharpnessLeaksNoMoreThanTheTolerance) {
  const HardLayer hard = draw_hard_layer({.dim = 6, .size = 2, .sharpness = 16, .seed = 8});
  const auto levels =
      fourier_levels(fourier_coefficients(hard.layer, {.degree = 4}, {}), 6, FourierPart::hidden);
  double largest = 0;
  for (const FourierLevel& level : levels) largest = std::max(largest, level.largest);
  EXPECT_GT(largest, 0);
  EXPECT_LE(largest, hard.label.tolerance);
}

// A rounding's hidden component is no single parity: it has low degrees.
TEST(Fourier, RoundingLeaksLowDegrees) {
  const HardLayer hard =
      draw_hard_layer({.kind = HardKind::rounding, .dim = 6, .size = 5, .modulus = 4, .sharpness = 100});
  const auto levels =
      fourier_levels(fourier_coefficients(hard.layer, {.degree = 3}, {}), 6, FourierPart::hidden);
  EXPECT_GT(levels[1].weight + levels[2].weight + levels[3].weight, 0.01);
}

TEST(Fourier, SamplesStayWithinTheirInterval) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 13, .outputs = 1, .seed = 5});
  const Fourier sampled = fourier_coefficients(layer, {.degree = 2, .samples = 5000, .seed = 3}, {});
  const Fourier again = fourier_coefficients(layer, {.degree = 2, .samples = 100000, .seed = 4}, {});
  ASSERT_FALSE(sampled.exact);
  ASSERT_EQ(sampled.subsets.dim(0), 1 + 26 + 325);
  double worst = 0;
  for (Index row = 0; row < sampled.values.size(); ++row)
    worst = std::max(worst, std::abs(sampled.values.data<double>()[row] - again.values.data<double>()[row]));
  EXPECT_LT(worst, sampled.half_widths[0] + again.half_widths[0]);
  EXPECT_GT(worst, 0.3 * sampled.half_widths[0]);  // and the interval is no wider than it should be
}

TEST(Fourier, RefusesTooMany) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 40, .outputs = 1});
  EXPECT_THROW(static_cast<void>(fourier_coefficients(layer, {.degree = 9}, {})), Error);
  EXPECT_THROW(static_cast<void>(fourier_coefficients(layer, {.degree = 0}, {})), Error);
}

}  // namespace
}  // namespace headlens
