// Gradient descent against differences of the loss, its trace, and what it may claim.
#include "recover/descent.hpp"
#include "linalg/vector_space.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "attention/packing.hpp"
#include "headlens/error.hpp"

namespace headlens::recovery {
namespace {

struct DescentPlant {
  AttentionLayer layer;
  Examples examples;
};
DescentPlant descent_plant(Index k, Index d, Index m, Index n, std::uint64_t seed, double noise = 0) {
  AttentionLayer layer = draw_teacher({.heads = m, .dim = d, .seed = seed});
  Examples examples = draw_examples(layer, {.count = n, .tokens = k, .noise = noise, .seed = seed + 50}, {});
  return {std::move(layer), std::move(examples)};
}

double loss_of(const Split& split, const Candidate& c) {
  return squared_norm(residual_on(split.train_x, split.train_y, split.tokens, c.theta, c.w, 1)) /
         squared_norm(split.train_y);
}

// Every derivative by a central difference; Adam as in its paper, one number at a time.
std::vector<double> slow_adam(const Split& split, Candidate at, int steps) {
  const Index thetas = at.theta.rows() * at.theta.cols(), count = thetas + at.w.rows() * at.w.cols();
  const auto entry = [&](Index i) -> double& {
    return i < thetas ? at.theta.data()[i] : at.w.data()[i - thetas];
  };
  std::vector<double> mean(std::size_t(count), 0), square(std::size_t(count), 0), losses{loss_of(split, at)};
  for (int t = 1; t <= steps; ++t) {
    std::vector<double> gradient;
    for (Index i = 0; i < count; ++i) {
      const double here = entry(i), h = 1e-5;
      entry(i) = here + h;
      const double up = loss_of(split, at);
      entry(i) = here - h;
      gradient.push_back((up - loss_of(split, at)) / (2 * h));
      entry(i) = here;
    }
    const double rate = 1e-2 * (1 + std::cos(std::numbers::pi * (t - 1) / steps)) / 2;
    for (Index i = 0; i < count; ++i) {
      const auto q = std::size_t(i);
      mean[q] = 0.9 * mean[q] + 0.1 * gradient[q];
      square[q] = 0.999 * square[q] + 0.001 * gradient[q] * gradient[q];
      entry(i) -= rate * (mean[q] / (1 - std::pow(0.9, t))) /
                  (std::sqrt(square[q] / (1 - std::pow(0.999, t))) + 1e-8);
    }
    losses.push_back(loss_of(split, at));
  }
  return losses;
}

TEST(Descent, FollowsTheGradientOfTheLoss) {
  const DescentPlant p = descent_plant(3, 3, 2, 16, 1);
  const Split split = hold_out(p.examples);
  const Execution execution{.threads = 1};
  Effort effort({}, execution);
  const std::vector<double> slow = slow_adam(split, random_layer(3, 3, 2, 5, 0), 8);
  (void)descend(split, random_layer(3, 3, 2, 5, 0), 8, effort);
  ASSERT_EQ(effort.trace.size(), slow.size());
  // A difference of step 1e-5 has errors of 1e-10 in the slope and of 1e-16 / 1e-5; Adam divides by the
  // slope, of 1e-3 and more here, so that a step of 1e-2 is right to 1e-9 or so.
  for (std::size_t t = 0; t < slow.size(); ++t)
    EXPECT_NEAR(std::pow(effort.trace[t].train_error, 2), slow[t], 1e-7) << "step " << t;
}

TEST(Descent, TraceHasStepsFromZeroAndHeldOutErrors) {
  const DescentPlant p = descent_plant(4, 5, 1, 60, 2);
  const Recovery r = recover(
      p.examples, {.method = RecoverMethod::gradient, .heads = 1, .starts = 2, .steps = 50}, {.threads = 1});
  int starts = 0, last = -1;
  for (const TracePoint& point : r.certificate.trace) {
    ASSERT_EQ(point.phase, "gradient");
    ASSERT_TRUE(point.held_out_error.has_value());
    EXPECT_TRUE(point.step == last + 1 || (point.step == 0 && last == 50));
    starts += point.step == 0;
    last = point.step;
  }
  EXPECT_EQ(last, 50);
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(r.certificate.starts, 2);
  EXPECT_EQ(r.certificate.steps, 100);
  EXPECT_EQ(name(r.certificate.status), "not_identified");
}

// What is called recovered is right; what is not has a reason, and comes without a layer.
TEST(Descent, ClaimsNoMoreThanItsProof) {
  int recovered = 0;
  for (std::uint64_t seed = 2; seed < 4; ++seed)
    for (const double noise : {0.0, 0.05}) {
      const DescentPlant p = descent_plant(4, 6, 2, 100, seed, noise);
      const Recovery r =
          recover(p.examples, {.method = RecoverMethod::gradient, .heads = 2, .starts = 1}, {.threads = 1});
      const bool claimed = r.certificate.status == RecoveryStatus::recovered;
      recovered += claimed;
      EXPECT_EQ(r.layer.has_value(), claimed);
      EXPECT_EQ(r.certificate.reason.empty(), claimed);
      EXPECT_FALSE(claimed && noise > 0);
      EXPECT_FALSE(claimed && compare_layers(*r.layer, p.layer).worst_error > 1e-8);
    }
  EXPECT_GT(recovered, 0);  // or the test says nothing
}

TEST(Descent, DoesNotDependOnThreads) {
  const DescentPlant p = descent_plant(5, 8, 2, 300, 3);
  const RecoverOptions options{.method = RecoverMethod::gradient, .heads = 2, .starts = 1, .steps = 60};
  const Recovery one = recover(p.examples, options, {.threads = 1}),
                 two = recover(p.examples, options, {.threads = 2});
  EXPECT_EQ(one.best->theta.to_doubles(), two.best->theta.to_doubles());
  EXPECT_EQ(one.best->w.to_doubles(), two.best->w.to_doubles());
}

TEST(Descent, NeedsTheNumberOfHeads) {
  EXPECT_THROW((RecoverOptions{.method = RecoverMethod::gradient}.validate()), Error);
  EXPECT_THROW((RecoverOptions{.method = RecoverMethod::gradient, .heads = 1, .steps = 0}.validate()), Error);
}

}  // namespace
}  // namespace headlens::recovery
