// Kernel entries against random heads: the estimates scatter around them as their standard errors say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/normal.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "cpu/kernels/moments.hpp"
#include "headlens/kernel.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;
using namespace cpu;

constexpr Index kPairs = 1000, kHeads = 6000, kDim = 2, kExtended = kDim + 1;

struct Case {
  Score score;
  double bias, scale;
};
// Means of at most two deviations: where scores are almost never positive, heads say nothing.
constexpr Case kCases[] = {{Score::relu, 0, 0.5}, {Score::relu, 1, 0.5}, {Score::relu, -0.4, 0.3},
                           {Score::step, 0, 0.5}, {Score::step, 1, 0.5}, {Score::exp, 0.1, 0.05}};

double apply(Score score, double c) {
  if (score == Score::exp) return std::exp(c);
  return c <= 0 ? 0.0 : score == Score::step ? 1.0 : c;
}

// phi of one head, written out.
void features(const Sets& sets, const double* head, Score score, double* phi) {
  double query[kExtended], keys[4 * kExtended];
  sets.copy_set(0, query, keys, kExtended);
  query[kDim] = 1;
  const Index count = sets.keys_of(0);
  std::fill_n(phi, kExtended, 0.0);
  for (Index k = 0; k < count; ++k) {
    double* key = keys + k * kExtended;
    key[kDim] = 1;
    double c = 0;
    for (Index i = 0; i < kExtended; ++i)
      for (Index j = 0; j < kExtended; ++j) c += query[i] * head[i * kExtended + j] * key[j];
    for (Index j = 0; j < kExtended; ++j) phi[j] += apply(score, c) * key[j] / static_cast<double>(count);
  }
}

// (K - mean over heads) / standard error, for one pair of sets with heads of its own.
double z_score(Index pair) {
  const Case& c = kCases[pair % std::size(kCases)];
  const auto seed = static_cast<std::uint64_t>(10 * pair);
  const Sets a = equal_sets<double>(1, 1 + pair % 3, kDim, seed),
             b = equal_sets<double>(1, 2, kDim, seed + 2);
  KernelOptions options;
  options.features.score = c.score;
  options.features.bias_scale = c.bias;
  options.features.weight_scale = c.scale;
  const double exact = attention_kernel(a, b, options, {.threads = 1}).values.at(0);
  Stream stream(seed, "test-heads");
  double sum = 0, squares = 0, head[kExtended * kExtended], left[kExtended], right[kExtended];
  for (Index m = 0; m < kHeads; ++m) {
    for (Index i = 0; i < kExtended; ++i)
      for (Index j = 0; j < kExtended; ++j)
        head[i * kExtended + j] = (i == j && i < kDim ? c.bias : 0.0) + c.scale * stream.normal();
    features(a, head, c.score, left);
    features(b, head, c.score, right);
    double product = 0;
    for (Index j = 0; j < kExtended; ++j) product += left[j] * right[j];
    sum += product;
    squares += product * product;
  }
  const double mean = sum / kHeads, variance = squares / kHeads - mean * mean;
  return (exact - mean) / std::sqrt(variance / kHeads);
}

// Each bound is exceeded by true normal numbers with probability below 1e-3; the seeds are fixed.
TEST(MonteCarlo, ScoresOfARandomPairAreStandardNormal) {
  std::vector<double> z(kPairs);
  parallel_for(thread_count({}), kPairs,
               [&](Index pair, int) { z[static_cast<std::size_t>(pair)] = z_score(pair); });
  double mean = 0, square = 0, distance = 0;
  for (const double x : z) mean += x / kPairs, square += x * x / kPairs;
  std::sort(z.begin(), z.end());
  for (Index i = 0; i < kPairs; ++i) {
    const double p = normal_probability(z[static_cast<std::size_t>(i)]);
    distance =
        std::max({distance, p - static_cast<double>(i) / kPairs, static_cast<double>(i + 1) / kPairs - p});
  }
  EXPECT_LT(std::abs(mean) * std::sqrt(kPairs), 3.3);
  EXPECT_LT(std::abs(square - 1) / std::sqrt(2.0 / kPairs), 3.3);
  EXPECT_LT(distance * std::sqrt(kPairs), 1.95) << "Kolmogorov and Smirnov";
  EXPECT_LT(std::max(-z.front(), z.back()), 5);
}

TEST(MonteCarlo, SoftmaxKnowsItsError) {
  const Sets a = ragged_sets<double>(20, 5, 3, 1), b = ragged_sets<double>(15, 5, 3, 2);
  KernelOptions options;
  options.features.score = Score::softmax;
  options.features.heads = 5000;
  const Kernel one = attention_kernel(a, b, options, {.threads = 1});
  EXPECT_EQ(one.values.to_doubles(), attention_kernel(a, b, options, {.threads = 3}).values.to_doubles());
  options.features.seed = 1;
  options.features.heads = 80000;
  const Kernel many = attention_kernel(a, b, options, {});
  double difference = 0;
  for (Index i = 0; i < one.values.size(); ++i)
    difference += std::pow(one.values.at(i) - many.values.at(i), 2) / static_cast<double>(one.values.size());
  // Entries share their heads, so the mean square has few degrees of freedom: a factor of two either way.
  const double expected = std::hypot(*one.standard_error, *many.standard_error);
  EXPECT_LT(std::sqrt(difference), 2 * expected);
  EXPECT_GT(std::sqrt(difference), 0.5 * expected);
  EXPECT_NEAR(*one.standard_error / *many.standard_error, 4, 1.5);
  EXPECT_GT(many.values.at(0), 0);
}

TEST(MonteCarlo, SymmetricSoftmaxIsTheCrossOne) {
  const Sets sets = ragged_sets<double>(20, 5, 3, 1);
  KernelOptions options;
  options.features.score = Score::softmax;
  options.features.heads = 100;
  const Kernel once = attention_kernel(sets, options, {}), twice = attention_kernel(sets, sets, options, {});
  for (Index i = 0; i < once.values.size(); ++i) EXPECT_NEAR(once.values.at(i), twice.values.at(i), 1e-13);
  EXPECT_NEAR(*once.standard_error, *twice.standard_error, 1e-10);
}

TEST(MonteCarlo, ClosedFormsHaveNoError) {
  EXPECT_FALSE(attention_kernel(equal_sets<double>(3, 2, 2, 1), {}, {}).standard_error.has_value());
}

}  // namespace
}  // namespace headlens
