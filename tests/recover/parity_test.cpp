// Learners that know the class: against all sets one by one, against planted systems, and where they must
// fail.
#include "recover/parity/parity.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens::recovery {
namespace {

struct ParityPlant {
  HardLayer hard;
  Examples examples;
};

ParityPlant plant_parity(const HardOptions& options, Index count, double flips = 0, double noise = 0) {
  HardLayer hard = draw_hard_layer(options);
  Examples examples = draw_hard_examples(
      hard, {.count = count, .tokens = 2, .noise = noise, .seed = options.seed + 100}, flips, {});
  return {std::move(hard), std::move(examples)};
}

std::vector<Index> hidden_set(const HardLayer& hard) {
  std::vector<Index> set;
  for (Index j = 0; j < hard.label.dim(); ++j)
    if (hard.label.weights[static_cast<std::size_t>(j)] != 0) set.push_back(j);
  return set;
}

Recovery learn(const ParityPlant& planted, RecoverMethod method, std::optional<Index> heads = {}) {
  RecoverOptions options;
  options.method = method;
  options.heads = heads;
  return recover(planted.examples, options, {});
}

// |sum of (v - mean) chi_S| / sum of |v - mean|, for one set.
double correlation(const ActiveExamples& active, const std::vector<Index>& set) {
  double mean = 0, sum = 0, size = 0;
  for (Index i = 0; i < active.count(); ++i)
    mean += active.labels(0, i) / static_cast<double>(active.count());
  for (Index i = 0; i < active.count(); ++i) {
    double chi = 1;
    for (const Index j : set) chi *= active.bits(j, i);
    sum += (active.labels(0, i) - mean) * chi;
    size += std::abs(active.labels(0, i) - mean);
  }
  return std::abs(sum) / size;
}

struct BestOfAll {
  std::vector<Index> set;
  double best = 0, next = 0;
};

// All sets of three of the coordinates 1 .. 23.
template <class Score>
BestOfAll rank_one_by_one(const ActiveExamples& active, Score score) {
  BestOfAll out;
  for (Index a = 1; a < 24; ++a)
    for (Index b = a + 1; b < 24; ++b)
      for (Index c = b + 1; c < 24; ++c) {
        const double here = score(active, {a, b, c});
        if (here > out.best)
          out = {{a, b, c}, here, out.best};
        else
          out.next = std::max(out.next, here);
      }
  return out;
}

TEST(BruteForce, RanksAllSetsAsOneByOne) {
  // More sets than a block has, and noise, so that the ranking is not trivial.
  const ParityPlant planted = plant_parity({.dim = 24, .size = 3, .seed = 5}, 200, 0.4, 0.3);
  const Split split = hold_out(planted.examples);
  const ActiveExamples active = active_examples(split.train_x, split.train_y);
  const auto [best_set, best, next] = rank_one_by_one(active, correlation);
  for (const int threads : {1, 3}) {
    RecoverOptions options;
    const Execution execution{.threads = threads};
    Effort effort(options, execution);
    const BestSet found = search_sets(active, 3, effort);
    EXPECT_EQ(found.tried, 1771);
    EXPECT_EQ(found.set, best_set);
    EXPECT_NEAR(found.correlation, best, 1e-13);
    EXPECT_NEAR(found.next_correlation, next, 1e-13);
  }
}

TEST(BruteForce, FindsTheSetOfThreeAmongTwenty) {
  const ParityPlant planted = plant_parity({.dim = 20, .size = 3, .seed = 2}, 1000);
  for (const std::optional<Index> heads : {std::optional<Index>(6), std::optional<Index>()}) {
    const Recovery found = learn(planted, RecoverMethod::brute_force, heads);
    ASSERT_EQ(found.certificate.status, RecoveryStatus::recovered);
    EXPECT_EQ(found.certificate.parity->set, hidden_set(planted.hard));
    EXPECT_EQ(found.certificate.parity->tried, heads ? 969 : 19 + 171 + 969);
    EXPECT_LT(found.certificate.held_out_error, 1e-12);
    EXPECT_LT(compare_layers(*found.layer, planted.hard.layer).worst_error, 1e-6);
  }
}

TEST(BruteForce, NamesTheSetBehindFlippedLabelsAndCertifiesNothing) {
  const ParityPlant planted = plant_parity({.dim = 20, .size = 3, .seed = 2}, 2000, 0.05);
  const Recovery found = learn(planted, RecoverMethod::brute_force, 6);
  EXPECT_EQ(found.certificate.status, RecoveryStatus::not_identified);
  EXPECT_EQ(found.certificate.parity->set, hidden_set(planted.hard));
  EXPECT_NEAR(found.certificate.parity->correlation, 0.9, 0.05);  // 1 - 2 * 5%
  EXPECT_FALSE(found.layer.has_value());
}

TEST(BruteForce, StopsAtTheTimeLimit) {
  const ParityPlant planted = plant_parity({.dim = 60, .size = 8, .seed = 2}, 500);
  RecoverOptions options{.method = RecoverMethod::brute_force, .heads = 16, .time_limit_seconds = 0.05};
  const Recovery found = recover(planted.examples, options, {});
  EXPECT_EQ(found.certificate.status, RecoveryStatus::stalled);
  EXPECT_LT(found.certificate.parity->tried, found.certificate.parity->candidates);
  EXPECT_LT(found.certificate.seconds, 5);
  EXPECT_FALSE(found.layer.has_value());
}

TEST(LinearAlgebra, FindsTwentyAmongTwoHundred) {
  const ParityPlant planted = plant_parity({.dim = 200, .size = 20, .seed = 1}, 600);
  const Recovery found = learn(planted, RecoverMethod::linear_algebra);
  ASSERT_EQ(found.certificate.status, RecoveryStatus::recovered);
  EXPECT_EQ(found.certificate.parity->set, hidden_set(planted.hard));
  EXPECT_EQ(found.certificate.parity->rank, 200);
  EXPECT_EQ(found.certificate.parity->violated, 0);
  EXPECT_EQ(found.certificate.heads, 40);
  EXPECT_EQ(found.layer->heads(), 40);
}

TEST(LinearAlgebra, FailsHonestlyWithFlippedLabels) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const ParityPlant planted = plant_parity({.dim = 200, .size = 20, .seed = seed}, 600, 0.05);
    const Recovery found = learn(planted, RecoverMethod::linear_algebra);
    EXPECT_EQ(found.certificate.status, RecoveryStatus::not_identified);
    EXPECT_GT(found.certificate.parity->violated, 0);
    EXPECT_GT(found.certificate.held_out_error, 0.1);
    EXPECT_FALSE(found.layer.has_value());
  }
}

// Rows of every rank, against the solution that they were made from.
TEST(LinearAlgebra, SolvesPlantedSystems) {
  for (const Index d : {2, 63, 64, 65, 130}) {
    const ParityPlant planted =
        plant_parity({.dim = d, .size = d / 2, .seed = static_cast<std::uint64_t>(d)}, 4 * d + 80);
    const Split split = hold_out(planted.examples);
    const RecoverOptions options;
    const Execution execution;
    Effort effort(options, execution);
    const ParitySolution found = solve_parity(active_examples(split.train_x, split.train_y), effort);
    EXPECT_EQ(found.rank, d);
    EXPECT_EQ(found.violated, 0);
    EXPECT_EQ(found.set, hidden_set(planted.hard));
  }
}

TEST(LinearAlgebra, AsksForMoreThanItsUnknowns) {
  const Recovery few =
      learn(plant_parity({.dim = 100, .size = 3, .seed = 1}, 100), RecoverMethod::linear_algebra);
  EXPECT_EQ(few.certificate.status, RecoveryStatus::needs_more_examples);
  EXPECT_LT(few.certificate.parity->rank, 100);
  EXPECT_FALSE(few.layer.has_value());
}

// Labels of one bit can be guessed: that the few held-out ones are right is no proof.
TEST(ParityLearners, DoNotTakeLuckForAProof) {
  const ParityPlant planted = plant_parity({.dim = 12, .size = 2, .seed = 4}, 60);
  for (const RecoverMethod method : {RecoverMethod::brute_force, RecoverMethod::linear_algebra}) {
    const Recovery found = learn(planted, method, 4);
    EXPECT_LT(found.certificate.parity->spare_bits, 32);
    EXPECT_EQ(found.certificate.status, RecoveryStatus::needs_more_examples);
    EXPECT_FALSE(found.layer.has_value());
  }
}

TEST(ParityLearners, FitTheSharpness) {
  for (const double sharpness : {2.0, 6.0, 15.0}) {
    const ParityPlant planted = plant_parity({.dim = 14, .size = 3, .sharpness = sharpness, .seed = 3}, 800);
    const Recovery found = learn(planted, RecoverMethod::brute_force, 6);
    ASSERT_EQ(found.certificate.status, RecoveryStatus::recovered) << sharpness;
    EXPECT_TRUE(found.certificate.parity->sharpness_determined);
    EXPECT_LT(compare_layers(*found.layer, planted.hard.layer).worst_error, 1e-9) << sharpness;
  }
  const Recovery saturated = learn(plant_parity({.dim = 14, .size = 3, .sharpness = 200, .seed = 3}, 800),
                                   RecoverMethod::linear_algebra);
  EXPECT_EQ(saturated.certificate.status, RecoveryStatus::recovered);
  EXPECT_FALSE(saturated.certificate.parity->sharpness_determined);
}

TEST(ParityLearners, RecoverNothingThatTheyDoNotKnow) {
  const ParityPlant rounding = plant_parity(
      {.kind = HardKind::rounding, .dim = 12, .size = 5, .modulus = 4, .levels = 2, .seed = 3}, 2000);
  const AttentionLayer generic = draw_teacher({.heads = 4, .dim = 12, .seed = 3});
  const ParityPlant other{rounding.hard, draw_examples(generic, {.count = 2000, .tokens = 2, .seed = 4}, {})};
  for (const RecoverMethod method : {RecoverMethod::brute_force, RecoverMethod::linear_algebra})
    for (const ParityPlant* planted : {&rounding, &other}) {
      if (planted == &rounding && method == RecoverMethod::brute_force) continue;
      const Recovery found = learn(*planted, method);
      EXPECT_EQ(found.certificate.status, RecoveryStatus::not_identified);
      EXPECT_GT(found.certificate.held_out_error, 0.1);
      EXPECT_FALSE(found.layer.has_value());
    }
}

// sqrt(sum_t n_t mean_t^2 / sum (v - mean)^2), for one set.
double correlation_of_sum(const ActiveExamples& active, const std::vector<Index>& set) {
  const auto n = static_cast<double>(active.count());
  double mean = 0, between = 0, all = 0;
  for (Index i = 0; i < active.count(); ++i) mean += active.labels(0, i) / n;
  for (Index level = -3; level <= 3; ++level) {
    double sum = 0, count = 0;
    for (Index i = 0; i < active.count(); ++i) {
      Index t = 0;
      for (const Index j : set) t += active.differences(0, i) * active.differences(j, i);
      if (t == level) sum += active.labels(0, i) - mean, ++count;
    }
    if (count > 0) between += sum * sum / count;
  }
  for (Index i = 0; i < active.count(); ++i) all += std::pow(active.labels(0, i) - mean, 2);
  return std::sqrt(between / all);
}

TEST(BruteForce, RanksAllSumsAsOneByOne) {
  // More sets than a block has, and noise, so that the ranking is not trivial.
  const ParityPlant planted =
      plant_parity({.kind = HardKind::rounding, .dim = 24, .size = 3, .seed = 5}, 200, 0, 2.0);
  const Split split = hold_out(planted.examples);
  const ActiveExamples active = active_examples(split.train_x, split.train_y);
  const auto [best_set, best, next] = rank_one_by_one(active, correlation_of_sum);
  for (const int threads : {1, 3}) {
    const RecoverOptions options;
    const Execution execution{.threads = threads};
    Effort effort(options, execution);
    const BestSet found = search_sums(active, 3, effort);
    EXPECT_EQ(found.tried, 1771);
    EXPECT_EQ(found.set, best_set);
    EXPECT_NEAR(found.correlation, best, 1e-12);
    EXPECT_NEAR(found.next_correlation, next, 1e-12);
  }
}

TEST(BruteForce, RecoversRoundings) {
  for (const auto& [modulus, levels] : {std::pair<Index, Index>{3, 2}, {4, 2}, {5, 3}, {6, 2}})
    for (const Index width : {2, 3, 5}) {
      const ParityPlant planted = plant_parity({.kind = HardKind::rounding,
                                                .dim = 12,
                                                .size = width,
                                                .modulus = modulus,
                                                .levels = levels,
                                                .seed = static_cast<std::uint64_t>(width)},
                                               1500);
      const Recovery found = learn(planted, RecoverMethod::brute_force, 2 * width);
      ASSERT_EQ(found.certificate.status, RecoveryStatus::recovered) << modulus << " " << width;
      EXPECT_EQ(found.certificate.parity->set, hidden_set(planted.hard));
      EXPECT_EQ(found.layer->heads(), planted.hard.layer.heads());
      const Examples fresh = draw_examples(planted.hard.layer, {.count = 4000, .tokens = 2, .seed = 9}, {});
      const Array y = apply_layer(*found.layer, fresh.x, {});
      for (Index i = 0; i < y.size(); ++i) EXPECT_NEAR(y.at(i), fresh.y.at(i), 1e-7);
      ASSERT_EQ(found.certificate.parity->steps.size(), planted.hard.label.steps.size());
      for (std::size_t t = 0; t < planted.hard.label.steps.size(); ++t)
        EXPECT_NEAR(found.certificate.parity->steps[t], planted.hard.label.steps[t], 1e-7);
    }
}

// Labels that are nearly always the same say little about the hidden set.
TEST(BruteForce, CountsWhatLabelsOfAStepFunctionSay) {
  const HardOptions rare{
      .kind = HardKind::rounding, .dim = 12, .size = 4, .modulus = 8, .levels = 2, .seed = 3};
  const Recovery few = learn(plant_parity(rare, 150), RecoverMethod::brute_force, 8);
  EXPECT_NE(few.certificate.status, RecoveryStatus::recovered);
  EXPECT_LT(few.certificate.parity->spare_bits, 32);
  const Recovery many = learn(plant_parity(rare, 3000), RecoverMethod::brute_force, 8);
  EXPECT_EQ(many.certificate.status, RecoveryStatus::recovered);
  const double active = static_cast<double>(many.certificate.parity->active_examples);
  EXPECT_LT(many.certificate.parity->spare_bits, active / 2);
}

TEST(BruteForce, CertifiesNoRoundingFromNoisyLabels) {
  const HardOptions options{
      .kind = HardKind::rounding, .dim = 14, .size = 3, .modulus = 4, .levels = 2, .seed = 3};
  for (const auto& [flips, noise] : {std::pair{0.05, 0.0}, {0.0, 0.1}}) {
    const ParityPlant planted = plant_parity(options, 2000, flips, noise);
    const Recovery found = learn(planted, RecoverMethod::brute_force, 6);
    EXPECT_EQ(found.certificate.status, RecoveryStatus::not_identified);
    EXPECT_EQ(found.certificate.parity->set, hidden_set(planted.hard));
    EXPECT_FALSE(found.layer.has_value());
  }
}

TEST(ParityLearners, RefuseWhatTheyDoNotKnow) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 6});
  const ParityPlant good = plant_parity({.dim = 6, .size = 2}, 100);
  RecoverOptions options{.method = RecoverMethod::brute_force};
  EXPECT_THROW(static_cast<void>(recover(draw_examples(layer, {.tokens = 3}, {}), options, {})), Error);
  EXPECT_THROW(static_cast<void>(
                   recover(draw_examples(layer, {.tokens = 2, .inputs = Inputs::gaussian}, {}), options, {})),
               Error);
  options.heads = 3;
  EXPECT_THROW(static_cast<void>(recover(good.examples, options, {})), Error);
  options.heads = 14;
  EXPECT_THROW(static_cast<void>(recover(good.examples, options, {})), Error);
}

// Methods that know nothing of the class run into it; with as many heads a generic layer comes back.
TEST(HardLayers, KeepTheirHeadsFromMethodsForAnyLayer) {
  const ParityPlant planted = plant_parity({.dim = 8, .size = 3, .sharpness = 8, .seed = 3}, 400);
  for (const RecoverMethod method : {RecoverMethod::varpro, RecoverMethod::sculpt}) {
    const RecoverOptions options{.method = method, .heads = 6, .starts = 1, .time_limit_seconds = 5};
    const Recovery found = recover(planted.examples, options, {});
    EXPECT_NE(found.certificate.status, RecoveryStatus::recovered);
    EXPECT_NE(found.certificate.status, RecoveryStatus::approximate);
    EXPECT_GT(found.certificate.held_out_error, 0.1);
    EXPECT_FALSE(found.layer.has_value());
  }
  const AttentionLayer generic = draw_teacher({.heads = 6, .dim = 8, .seed = 3});
  const Examples examples = draw_examples(generic, {.count = 400, .tokens = 2, .seed = 4}, {});
  const Recovery found = recover(examples, {.heads = 6}, {});
  EXPECT_EQ(found.certificate.status, RecoveryStatus::recovered);
  EXPECT_LT(compare_layers(*found.layer, generic).worst_error, 1e-8);
}

}  // namespace
}  // namespace headlens::recovery
