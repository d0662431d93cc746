#include "headlens/tasks.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "headlens/error.hpp"

namespace headlens {
namespace {

double variance(const std::vector<double>& y) {
  double mean = 0, square = 0;
  for (const double v : y) mean += v / static_cast<double>(y.size());
  for (const double v : y) square += (v - mean) * (v - mean) / static_cast<double>(y.size());
  return square;
}

TEST(Tasks, TokensAreUnitVectorsAndSetsDoNotDependOnTheCount) {
  TaskOptions options{.dim = 5, .min_keys = 2, .max_keys = 6, .count = 40, .seed = 3};
  const LabelledSets many = generate(options, {});
  options.count = 7;
  const LabelledSets few = generate(options, {.threads = 1});
  for (Index s = 0; s < 7; ++s) {
    ASSERT_EQ(many.sets.keys_of(s), few.sets.keys_of(s));
    EXPECT_EQ(many.targets.values[static_cast<std::size_t>(s)],
              few.targets.values[static_cast<std::size_t>(s)]);
    std::vector<double> query(5), keys(30);
    few.sets.copy_set(s, query.data(), keys.data(), 5);
    for (Index k = -1; k < few.sets.keys_of(s); ++k) {
      double square = 0;
      for (Index j = 0; j < 5; ++j)
        square += std::pow(
            k < 0 ? query[static_cast<std::size_t>(j)] : keys[static_cast<std::size_t>(k * 5 + j)], 2);
      EXPECT_NEAR(square, 1, 1e-14);
    }
  }
}

// Var of (1/N) sum <beta, x_i>^2 is Var(T^2)/N with E[T^4] = 3/(d(d+2)). 20000 sets: the relative standard
// error of a variance is about sqrt(2/n) = 1%, for this nearly Gaussian mean; 6% is six of them.
TEST(Tasks, PowerMeanHasTheVarianceOfItsDefinition) {
  const TaskOptions options{
      .task = Task::power_mean, .dim = 8, .min_keys = 8, .max_keys = 8, .count = 20000, .degree = 2};
  const double exact = (3.0 / 80 - 1.0 / 64) / 8;
  EXPECT_NEAR(variance(generate(options, {}).targets.values) / exact, 1, 0.06);
}

// The pure correlation has no correlation with functions of x_0 alone: E[y | x_0] = 0. So its variance is
// that of the raw one less (1/d^2) Var <x_0, beta> = 1/d^3.
TEST(Tasks, PureCorrelationLosesTheQueryShare) {
  TaskOptions options{
      .task = Task::correlation, .dim = 4, .min_keys = 3, .max_keys = 3, .count = 40000, .degree = 1};
  const double raw = variance(generate(options, {}).targets.values);
  options.pure = true;
  const double pure = variance(generate(options, {}).targets.values);
  EXPECT_NEAR(raw - pure, 1.0 / 64, 0.1 / 64);
  // Exactly: Var_pure = (1/N) E[(T t - ..)^2] = (1/N) (E <x_0,x>^2 <beta,x>^2 - E over x_0 of
  // (<x_0,beta>/d)^2).
  EXPECT_NEAR(pure, (1.0 / 16 - 1.0 / 64) / 3, 0.05 * (1.0 / 16 - 1.0 / 64) / 3);
}

TEST(Tasks, MixtureJoinsIdentityAndShift) {
  TaskOptions options{.task = Task::mixture,
                      .dim = 6,
                      .min_keys = 4,
                      .max_keys = 4,
                      .count = 10,
                      .pure = true,
                      .weight = 0.25};
  const auto mixed = generate(options, {}).targets.values;
  options.task = Task::correlation;
  const auto identity = generate(options, {}).targets.values;
  options.matrix = TaskMatrix::shift;
  const auto shift = generate(options, {}).targets.values;
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(mixed[i], 0.75 * identity[i] + 0.25 * shift[i], 1e-15);
}

TEST(Tasks, NoiseHasItsStandardDeviationAndItsOwnStream) {
  TaskOptions options{.dim = 3, .min_keys = 2, .max_keys = 2, .count = 20000, .seed = 8};
  const auto clean = generate(options, {}).targets.values;
  options.noise = 0.5;
  auto noise = generate(options, {}).targets.values;
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] -= clean[i];
  EXPECT_NEAR(variance(noise), 0.25, 0.25 * 6 * std::sqrt(2.0 / 20000));  // six standard errors
}

TEST(Tasks, RandomMatrixIsOrthogonalAndComesFromTheTargetSeed) {
  // With one key equal in law to any rotation of it, y's variance for any orthogonal S is that of the
  // identity.
  TaskOptions options{.task = Task::correlation,
                      .dim = 4,
                      .min_keys = 1,
                      .max_keys = 1,
                      .count = 40000,
                      .pure = true,
                      .matrix = TaskMatrix::random,
                      .target_seed = 5};
  EXPECT_NEAR(variance(generate(options, {}).targets.values), 1.0 / 16 - 1.0 / 64, 0.05 * 3.0 / 64);
  options.count = 5;
  const auto a = generate(options, {}).targets.values;
  options.target_seed = 6;
  EXPECT_NE(a, generate(options, {}).targets.values);
}

TEST(Tasks, RefuseNonsense) {
  EXPECT_THROW(generate({.dim = 0}, {}), Error);
  EXPECT_THROW(generate({.min_keys = 3, .max_keys = 2}, {}), Error);
  EXPECT_THROW(generate({.count = 0}, {}), Error);
  EXPECT_THROW(generate({.noise = -1}, {}), Error);
  EXPECT_THROW(generate({.task = Task::power_mean, .pure = true}, {}), Error);
  EXPECT_THROW(generate({.count = Index{1} << 50}, {}), Error);  // memory is refused before it is asked for
}

}  // namespace
}  // namespace headlens
