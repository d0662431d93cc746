// Certificates over families of layers: bounds that hold, and doubts that are said. tests/long draws
// thousands.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/recover.hpp"
#include "recover/certificate/distinct.hpp"
#include "recover/certificate/swapped.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/verdict.hpp"

namespace headlens::recovery {
namespace {

void scale_head(Array& a, Index i, double factor) {
  const Index size = a.dim(1) * a.dim(2);
  for (Index j = 0; j < size; ++j) a.data<double>()[i * size + j] *= factor;
}

// Theta of one head becomes that of another plus eps N(0, 1).
void make_parallel(AttentionLayer& layer, Index to, Index from, double eps, std::uint64_t seed) {
  const Index size = layer.dim() * layer.dim();
  Stream stream(seed, "parallel", 0);
  for (Index j = 0; j < size; ++j)
    layer.theta.data<double>()[to * size + j] =
        layer.theta.data<double>()[from * size + j] + eps * stream.normal();
}

Examples gaussian_examples(const AttentionLayer& layer, Index count, Index tokens, std::uint64_t seed) {
  return draw_examples(layer, {.count = count, .tokens = tokens, .inputs = Inputs::gaussian, .seed = seed},
                       {});
}

// The promise: a layer that is called recovered has the right heads within its bars.
void expect_bars_hold(const Recovery& recovery, const AttentionLayer& truth, const std::string& what) {
  if (recovery.certificate.status != RecoveryStatus::recovered) return;
  const Comparison comparison = compare_layers(*recovery.layer, truth);
  ASSERT_EQ(comparison.heads_a, comparison.heads_b) << what;
  for (const HeadMatch& match : comparison.matches) {
    const HeadReport& head = recovery.certificate.per_head[std::size_t(match.a)];
    EXPECT_LE(match.theta_error, head.theta_bar + 1e-14) << what;
    EXPECT_LE(match.w_error, head.w_bar + 1e-14) << what;
  }
}

// Heads that predict every digit and meet every challenge are certified by a proof, and by nothing less.
TEST(Certificate, NeedsAProofThatWasMade) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 3, .seed = 1});
  const Examples examples = gaussian_examples(layer, 60, 3, 2);
  const Split split = hold_out(examples);
  const Candidate exact{pack_theta(layer.theta), Matrix<double>::zeros(3, 3), 0, 0};
  const Challenge met{.agrees = true, .leaves_noise = true, .bars_tell = true, .returns = true};
  EXPECT_EQ(verdict(split, exact, met, Proof{}, false), RecoveryStatus::not_identified);
  EXPECT_EQ(verdict(split, exact, met, Proof{}, true), RecoveryStatus::stalled);
  EXPECT_EQ(verdict(split, exact, met, Proof{.doubt = Doubt::none}, false), RecoveryStatus::recovered);
}

// Challenges that the time limit cut short may look as if they were met.
TEST(Certificate, IsNotApproximateOnceTheTimeIsOver) {
  const Examples examples = gaussian_examples(draw_teacher({.heads = 1, .dim = 3, .seed = 1}), 60, 3, 2);
  const Split split = hold_out(examples);
  const Candidate noisy{Matrix<double>::zeros(3, 3), Matrix<double>::zeros(3, 3), 0.1, 0.1};
  const Challenge met{.agrees = true, .leaves_noise = true, .bars_tell = true, .returns = true};
  EXPECT_EQ(verdict(split, noisy, met, Proof{}, false), RecoveryStatus::approximate);
  EXPECT_EQ(verdict(split, noisy, met, Proof{}, true), RecoveryStatus::stalled);
}

TEST(Certificate, HoldsForNearlyParallelHeads) {
  int recovered = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (const double eps : {1e-2, 1e-3, 3e-4, 1e-5, 1e-9}) {
      AttentionLayer layer = draw_teacher({.heads = 2, .dim = 4, .seed = seed});
      make_parallel(layer, 1, 0, eps, seed);
      const Recovery recovery = recover(gaussian_examples(layer, 150, 4, seed + 50), {}, {.threads = 1});
      expect_bars_hold(recovery, layer, "eps " + std::to_string(eps) + " seed " + std::to_string(seed));
      recovered += recovery.certificate.status == RecoveryStatus::recovered;
      if (recovery.certificate.status == RecoveryStatus::not_identified) {
        EXPECT_GE(recovery.certificate.heads_in_doubt.size(), 2u) << recovery.certificate.reason;
      }
    }
  EXPECT_GE(recovered, 8);  // 1e-2 and 1e-3 leave enough digits
}

TEST(Certificate, HoldsForSmallLogitsAndFaintHeads) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const double scale : {1e-3, 1e-2}) {
      const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .scale = scale, .seed = seed});
      const Examples examples = draw_examples(layer, {.count = 200, .tokens = 4, .seed = seed + 9}, {});
      expect_bars_hold(recover(examples, {}, {.threads = 1}), layer, "logits " + std::to_string(scale));
    }
    AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .seed = seed});
    scale_head(layer.w, 1, 1e-9);
    const Examples examples = draw_examples(layer, {.count = 200, .tokens = 4, .seed = seed + 9}, {});
    const Recovery recovery = recover(examples, {}, {.threads = 1});
    expect_bars_hold(recovery, layer, "faint head");
    EXPECT_EQ(recovery.certificate.status, RecoveryStatus::recovered);  // 1e-9 is far above rounding
    EXPECT_EQ(recovery.certificate.heads, 2);
  }
}

TEST(Certificate, TenTimesTheExamplesAreNotWorse) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    AttentionLayer layer = draw_teacher({.heads = 2, .dim = 4, .seed = seed});
    make_parallel(layer, 1, 0, 1e-3, seed);
    const Recovery few = recover(gaussian_examples(layer, 60, 4, seed), {}, {.threads = 1});
    const Recovery many = recover(gaussian_examples(layer, 600, 4, seed), {}, {.threads = 1});
    expect_bars_hold(many, layer, "many examples");
    if (few.certificate.status == RecoveryStatus::recovered) {
      EXPECT_EQ(many.certificate.status, RecoveryStatus::recovered);
    }
  }
}

TEST(Certificate, MeanPoolingHeadsAreIdentified) {
  for (const Index heads : {1, 3}) {
    AttentionLayer layer = draw_teacher({.heads = heads, .dim = 4, .seed = 3});
    scale_head(layer.theta, 0, 0);
    const Recovery recovery = recover(gaussian_examples(layer, 200, 4, 5), {}, {.threads = 1});
    ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << heads;
    int pooling = 0;
    for (const HeadReport& head : recovery.certificate.per_head) {
      pooling += head.mean_pooling;
      if (head.mean_pooling) {
        EXPECT_EQ(head.scale, 0);
      }
    }
    EXPECT_EQ(pooling, 1);
    EXPECT_LT(compare_layers(*recovery.layer, layer).worst_error, 1e-10);
  }
}

// With two tokens (Theta, W) and a mean equal (-Theta, -W) and another mean.
TEST(Certificate, MirrorImagesOfTwoTokensAreNotCertified) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 4, .seed = 3});
  scale_head(layer.theta, 0, 0);
  const Recovery recovery = recover(gaussian_examples(layer, 200, 2, 5), {}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::not_identified);
  EXPECT_NE(recovery.certificate.reason.find("mirror image"), std::string::npos)
      << recovery.certificate.reason;
  // The same with W that add up to zero.
  AttentionLayer opposite = draw_teacher({.heads = 2, .dim = 4, .seed = 4});
  for (Index j = 0; j < 16; ++j) opposite.w.data<double>()[16 + j] = -opposite.w.data<double>()[j];
  const Recovery second = recover(gaussian_examples(opposite, 200, 2, 6), {}, {.threads = 1});
  EXPECT_NE(second.certificate.status, RecoveryStatus::recovered);
}

// So do examples of tokens that are symmetric around their mean: {b, -b} and one head are enough.
TEST(Certificate, MirrorImagesOfSymmetricTokensAreNotCertified) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 3, .seed = 1});
  Examples examples = gaussian_examples(layer, 200, 6, 2);
  for (Index example = 0; example < 200; ++example)
    for (Index j = 0; j < 9; ++j)
      examples.x.data<double>()[example * 18 + 9 + j] = -examples.x.data<double>()[example * 18 + j];
  examples.y = apply_layer(layer, examples.x, {});
  EXPECT_EQ(recover(examples, {}, {.threads = 1}).certificate.status, RecoveryStatus::not_identified);
}

// Centred examples hide a head that takes the plain mean.
TEST(Certificate, CentredTokensHideMeanPooling) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 3, .seed = 1});
  scale_head(layer.theta, 0, 0);
  Examples examples = gaussian_examples(layer, 200, 4, 2);
  for (Index example = 0; example < 200; ++example)
    for (Index q = 0; q < 3; ++q) {
      double* x = examples.x.data<double>() + example * 12 + q;
      const double mean = (x[0] + x[3] + x[6] + x[9]) / 4;
      for (Index t = 0; t < 4; ++t) x[3 * t] -= mean;
    }
  examples.y = apply_layer(layer, examples.x, {});
  const Recovery recovery = recover(examples, {}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::not_identified);
  EXPECT_NE(recovery.certificate.reason.find("plain mean"), std::string::npos) << recovery.certificate.reason;
}

// Tokens in two independent planes, three heads of which two agree on each: W may move between them.
TEST(Certificate, HeadsThatAgreeOnAGroupOfTokensAreNotCertified) {
  AttentionLayer layer = draw_teacher({.heads = 3, .dim = 4, .seed = 1});
  double* theta = layer.theta.data<double>();
  std::copy_n(theta, 8, theta + 16);               // heads 0 and 1 agree on the first two coordinates
  std::copy_n(theta + 16 + 8, 8, theta + 32 + 8);  // heads 1 and 2 on the last two
  Examples examples = gaussian_examples(layer, 200, 4, 2);
  for (Index row = 0; row < 200 * 4; ++row)
    for (Index q = 0; q < 2; ++q) examples.x.data<double>()[row * 4 + (row % 2 ? 0 : 2) + q] = 0;
  examples.y = apply_layer(layer, examples.x, {});
  EXPECT_NE(recover(examples, {.max_heads = 4}, {.threads = 1}).certificate.status,
            RecoveryStatus::recovered);
}

// A faint head in a problem too large for a factor: the residual says that something is missing.
TEST(Certificate, LargeProblemsAskForTheLastDigitToo) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 24, .seed = 1});
  scale_head(layer.w, 1, 1e-9);
  const Examples examples = draw_examples(layer, {.count = 200, .tokens = 4, .seed = 2}, {});
  EXPECT_NE(recover(examples, {}, {}).certificate.status, RecoveryStatus::recovered);
}

TEST(Certificate, SwappedRowsOfEqualWAreNotCertified) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 2, .seed = 4});
  for (Index j = 0; j < 4; ++j) layer.w.data<double>()[4 + j] = layer.w.data<double>()[j];
  const Examples signs = draw_examples(layer, {.count = 80, .tokens = 4, .seed = 5}, {});
  EXPECT_NE(recover(signs, {}, {.threads = 1}).certificate.status, RecoveryStatus::recovered);
  const Recovery general = recover(gaussian_examples(layer, 80, 4, 5), {}, {.threads = 1});
  EXPECT_EQ(general.certificate.status, RecoveryStatus::recovered);  // Gaussian tokens tie the rows together
  expect_bars_hold(general, layer, "equal W");
}

TEST(SwappedRows, GroupsAreThoseWithIndependentSpans) {
  const double one_hot[] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0};
  EXPECT_EQ(token_groups({one_hot, 4, 3}).count(), 3);
  const double signs_of_two[] = {1, 1, 1, -1, -1, -1, -1, 1};
  EXPECT_EQ(token_groups({signs_of_two, 4, 2}).count(), 2);
  const double signs_of_three[] = {1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1};
  EXPECT_EQ(token_groups({signs_of_three, 4, 3}).count(), 1);
  const double blocks[] = {1, 2, 0, 2, 1, 0, 1, 1, 0, 0, 0, 5};
  EXPECT_EQ(token_groups({blocks, 4, 3}).count(), 2);
}

// One example of two tokens, twenty times in either order: forty rows would be plenty for the six unknowns,
// but two of them are distinct.
TEST(DistinctExamples, DoNotCountTokensInAnotherOrder) {
  std::vector<double> x;
  for (int copy = 0; copy < 10; ++copy) x.insert(x.end(), {1, 2, 3, 4, /**/ 3, 4, 1, 2});
  const std::vector<double> y(40);
  const Split split{{x.data(), 38, 2}, {y.data(), 38, 1}, {x.data() + 76, 2, 2}, {y.data() + 38, 2, 1}, 2};
  EXPECT_FALSE(held_out_is_fresh(split, 1));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<double>(i);  // now all of them differ
  EXPECT_TRUE(held_out_is_fresh(split, 1));
}

TEST(UnseenDirections, AreNamed) {
  const Index n = 30, k = 3, d = 3;
  Matrix<double> x(n * k, d), y = Matrix<double>::zeros(n * k, 1);
  Stream stream(1, "unseen", 0);
  for (Index i = 0; i < n * k * d; ++i) x.data()[i] = stream.normal();
  const auto directions = [&] { return unseen_directions({x.view(), y.view(), {}, {}, k}); };
  EXPECT_TRUE(directions().empty());
  for (Index row = 0; row < n * k; ++row) x(row, 1) = 7;
  ASSERT_EQ(directions().size(), 1u);
  EXPECT_EQ(describe_direction(directions()[0]), "coordinate 1 of the tokens");
  for (Index row = 0; row < n * k; ++row) x(row, 1) = -x(row, 0) - x(row, 2);
  ASSERT_EQ(directions().size(), 1u);
  EXPECT_NEAR(std::abs(directions()[0][2]), 1 / std::sqrt(3.0), 1e-6);
}

TEST(Certificate, UnequalCoordinatesAreBroughtToOneSize) {
  for (const double size : {100.0, 1e4, 1e-6}) {
    AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .seed = 6});
    Examples examples = gaussian_examples(layer, 200, 4, 7);
    // Coordinate 2 of the tokens times `size`, the layer compensated: the labels stay what they are.
    for (Index row = 0; row < 200 * 4; ++row) examples.x.data<double>()[row * 5 + 2] *= size;
    for (Index i = 0; i < 2; ++i)
      for (Index q = 0; q < 5; ++q) {
        layer.theta.data<double>()[(i * 5 + 2) * 5 + q] /= size;
        layer.theta.data<double>()[(i * 5 + q) * 5 + 2] /= size;
        layer.w.data<double>()[(i * 5 + 2) * 5 + q] /= size;
      }
    const Recovery recovery = recover(examples, {}, {.threads = 1});
    ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << size;
    expect_bars_hold(recovery, layer, "stretched");
  }
}

TEST(Certificate, EveryMagnitudeIsAnsweredOrRefused) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 3, .seed = 2});
  for (const auto& [x_size, y_size] : {std::pair{1.0, 0.0},
                                       {1.0, 1e-170},
                                       {1.0, 1e155},
                                       {1e100, 1.0},
                                       {1e-100, 1.0},
                                       {1e154, 1.0},
                                       {1e-170, 1.0},
                                       {1.0, 1e-310},
                                       {1e300, 1e-300}}) {
    Examples examples = gaussian_examples(layer, 60, 4, 1);
    for (Index i = 0; i < examples.x.size(); ++i) examples.x.data<double>()[i] *= x_size;
    for (Index i = 0; i < examples.y.size(); ++i) examples.y.data<double>()[i] *= y_size;
    try {
      const Recovery recovery = recover(examples, {}, {.threads = 1});
      const bool zero = y_size == 0;
      EXPECT_EQ(recovery.certificate.status,
                zero ? RecoveryStatus::not_identified : RecoveryStatus::recovered);
      EXPECT_EQ(recovery.certificate.reason.empty(), !zero);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cannot be held in float64"), std::string::npos)
          << error.what();
      EXPECT_TRUE(x_size > 1e150 || x_size < 1e-150 || y_size < 1e-300);
    }
  }
}

TEST(Certificate, NoiseOfAnyNumberOfHeadsIsCounted) {
  for (const Index heads : {3, 5}) {
    const AttentionLayer layer = draw_teacher({.heads = heads, .dim = 6, .seed = 1});
    const Examples examples =
        draw_examples(layer, {.count = 120 * heads, .tokens = 4, .noise = 0.01, .seed = 2}, {});
    for (const Index most : {heads, Index{16}}) {
      const Recovery recovery = recover(examples, {.max_heads = most}, {.threads = 1});
      EXPECT_EQ(recovery.certificate.status, RecoveryStatus::approximate) << heads << " of " << most;
      EXPECT_EQ(recovery.certificate.heads, heads);
    }
  }
}

TEST(Certificate, SaysWhyAndWhatNext) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .seed = 6});
  Examples constant = gaussian_examples(layer, 200, 4, 7);
  for (Index row = 0; row < 200 * 4; ++row) constant.x.data<double>()[row * 5 + 3] = 1;
  constant.y = apply_layer(layer, constant.x, {});
  const Recovery recovery = recover(constant, {}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::not_identified);
  EXPECT_NE(recovery.certificate.reason.find("coordinate 3 of the tokens"), std::string::npos);
  EXPECT_FALSE(recovery.certificate.advice.empty());
  EXPECT_FALSE(recovery.layer.has_value());
  ASSERT_TRUE(recovery.best.has_value());
  const Array again = apply_layer(*recovery.best, constant.x, {});
  for (Index i = 0; i < again.size(); ++i)
    EXPECT_NEAR(again.data<double>()[i], constant.y.data<double>()[i], 1e-9);
}

}  // namespace
}  // namespace headlens::recovery
