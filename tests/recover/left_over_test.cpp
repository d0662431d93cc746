// Heads that hide in what others leave: found where they are, and not found in noise.
#include "recover/left_over.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/recover.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kLeftDim = 12, kFew = 3, kCount = 480, kLeftTokens = 4;

// A layer of kFew heads and one more, whose W is `faint` times as large.
AttentionLayer with_faint_head(double faint, std::uint64_t seed) {
  AttentionLayer layer = draw_teacher({.heads = kFew + 1, .dim = kLeftDim, .seed = seed});
  double* w = layer.w.data<double>() + kFew * kLeftDim * layer.outputs();
  for (Index j = 0; j < kLeftDim * layer.outputs(); ++j) w[j] *= faint;
  return layer;
}

Candidate first_heads(const AttentionLayer& layer, Index heads) {
  const Matrix<double> theta = pack_theta(layer.theta);
  Candidate out{Matrix<double>(kLeftDim, heads * kLeftDim),
                Matrix<double>(heads * kLeftDim, layer.outputs())};
  copy_rows(theta.view().block(0, 0, kLeftDim, heads * kLeftDim), out.theta);
  std::copy_n(layer.w.data<double>(), heads * kLeftDim * layer.outputs(), out.w.data());
  return out;
}

Examples examples_of(const AttentionLayer& layer, double noise, std::uint64_t seed) {
  return draw_examples(
      layer,
      {.count = kCount, .tokens = kLeftTokens, .inputs = Inputs::gaussian, .noise = noise, .seed = seed}, {});
}

TEST(LeftOver, FindsAFaintHead) {
  const Execution execution{.threads = 1};
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    for (const double faint : {1e-3, 1e-7}) {
      const AttentionLayer layer = with_faint_head(faint, seed);
      const Examples examples = examples_of(layer, 0, seed + 10);
      Effort effort({}, execution);
      const LeftOver left = find_left_over(hold_out(examples), first_heads(layer, kFew), seed, effort);
      EXPECT_TRUE(left.is_head()) << "z = " << left.z;
      EXPECT_GT(left.theta.cols(), kFew * kLeftDim);
    }
}

// One head in place of two whose Theta differ by a hundredth: what is left is a derivative, not a head.
TEST(LeftOver, FindsAPairThatWasTakenForOneHead) {
  const Execution execution{.threads = 1};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    AttentionLayer layer = draw_teacher({.heads = 2, .dim = kLeftDim, .seed = seed});
    Stream stream(seed, "parallel");
    double* theta = layer.theta.data<double>();
    for (Index j = 0; j < kLeftDim * kLeftDim; ++j)
      theta[kLeftDim * kLeftDim + j] = theta[j] + 1e-2 * 2 / static_cast<double>(kLeftDim) * stream.normal();
    const Examples examples = examples_of(layer, 0, seed + 10);
    const Split split = hold_out(examples);
    Effort effort({}, execution);
    const Candidate one = solve_from(split, first_heads(layer, 1).theta, {.ridge = 1e-12}, "test", effort);
    const LeftOver left = find_left_over(split, one, seed, effort);
    EXPECT_TRUE(left.is_head()) << "z = " << left.z;
    EXPECT_EQ(left.theta.cols(), 2 * kLeftDim);
  }
}

// Under noise z is about normal: the largest of 6 x 5 stays below 6 but for a chance of 3e-8.
TEST(LeftOver, FindsNothingInNoise) {
  const Execution execution{.threads = 1};
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const AttentionLayer layer = draw_teacher({.heads = kFew, .dim = kLeftDim, .seed = seed});
    const Examples examples = examples_of(layer, 1e-4, seed + 10);
    Effort effort({}, execution);
    EXPECT_FALSE(find_left_over(hold_out(examples), first_heads(layer, kFew), seed, effort).is_head());
  }
}

// Too many entries of Theta for grow(): the second head is found all the same.
TEST(LeftOver, GrowsLargeLayers) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 18, .seed = 1});
  for (Index j = 0; j < 18 * 18; ++j) layer.w.data<double>()[18 * 18 + j] *= 1e-6;
  const Examples examples =
      draw_examples(layer, {.count = 200, .tokens = kLeftTokens, .inputs = Inputs::gaussian, .seed = 11}, {});
  const Recovery recovery = recover(examples, {}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.heads, 2) << recovery.certificate.reason;
  EXPECT_LT(recovery.certificate.held_out_error, 1e-12);
}

// Conjugate gradients leave 1e-13 of these labels where rounding leaves 1e-15. That is no fifth head.
TEST(LeftOver, DigitsThatAreMissingAreNoHead) {
  for (const std::uint64_t seed : {12, 14}) {
    const AttentionLayer layer = draw_teacher({.heads = 4, .dim = 16, .scale = 0.5, .seed = seed});
    const Examples examples = draw_examples(layer, {.count = 320, .tokens = 6, .seed = seed}, {});
    const Recovery r = recover(examples, {}, {.threads = 1});
    ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered) << "seed " << seed;
    EXPECT_EQ(r.certificate.heads, 4);
    EXPECT_LT(compare_layers(*r.layer, layer).worst_error, 1e-8);
  }
}

}  // namespace
}  // namespace headlens::recovery
