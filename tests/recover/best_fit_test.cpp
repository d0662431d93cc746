// The best layer of m heads for labels of any origin: never called recovered, never better than the noise
// allows, and the true layer where there is one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "recover/certificate/noise_floor.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kTokens = 3, kDim = 4;
constexpr double kNoise = 0.3;

Examples layer_examples(Index heads, Index count, std::uint64_t seed, double noise = 0) {
  const AttentionLayer layer = draw_teacher({.heads = heads, .dim = kDim, .seed = seed});
  return draw_examples(
      layer,
      {.count = count, .tokens = kTokens, .inputs = Inputs::gaussian, .noise = noise, .seed = seed + 90}, {});
}

// A two-layer network of random weights that reads an example as one long vector: no layer's labels.
Array network(const Array& x, std::uint64_t seed) {
  constexpr Index hidden = 12, inputs = kTokens * kDim;
  const Index n = x.dim(0);
  Stream stream(seed, "network");
  std::vector<double> first(hidden * inputs), second(inputs * hidden), y(std::size_t(n * inputs));
  for (double& w : first) w = stream.normal() / std::sqrt(double(inputs));
  for (double& w : second) w = stream.normal() / std::sqrt(double(hidden));
  for (Index i = 0; i < n; ++i)
    for (Index h = 0; h < hidden; ++h) {
      double sum = 0;
      for (Index j = 0; j < inputs; ++j)
        sum += first[std::size_t(h * inputs + j)] * x.data<double>()[i * inputs + j];
      for (Index j = 0; j < inputs; ++j)
        y[std::size_t(i * inputs + j)] += std::max(sum, 0.0) * second[std::size_t(j * hidden + h)];
    }
  return Array::from(y, {n, kTokens, kDim});
}

void add_noise(Array& y, double sigma, std::uint64_t seed) {
  Stream stream(seed, "label noise");
  for (Index i = 0; i < y.size(); ++i) y.data<double>()[i] += sigma * stream.normal();
}

// Every X of the first third of the examples three times, in shuffled places; no labels.
Examples repeated(Examples examples) {
  const Index n = examples.count(), size = kTokens * kDim;
  std::vector<double> x = examples.x.to_doubles();
  for (Index i = 0; i < n; ++i)
    std::copy_n(examples.x.data<double>() + (i * 7 % n) / 3 * size, size, x.begin() + i * size);
  examples.x = Array::from(x, {n, kTokens, kDim});
  std::fill_n(examples.y.data<double>(), examples.y.size(), 0.0);
  return examples;
}

// name -> labels that are not those of a layer of two heads, and the share of their squares that is noise.
struct Labels {
  Examples examples;
  double noise_variance = 0;
};
std::map<std::string, std::function<Labels(std::uint64_t)>> families() {
  return {{"noise only",
           [](std::uint64_t seed) {
             Examples e = layer_examples(1, 200, seed);
             std::fill_n(e.y.data<double>(), e.y.size(), 0.0);
             add_noise(e.y, 1, seed);
             return Labels{e, 1};
           }},
          {"network",
           [](std::uint64_t seed) {
             Examples e = layer_examples(1, 200, seed);
             e.y = network(e.x, seed);
             return Labels{e, 0};
           }},
          {"noisy network",
           [](std::uint64_t seed) {
             Examples e = layer_examples(1, 200, seed);
             e.y = network(e.x, seed);
             add_noise(e.y, kNoise, seed);
             return Labels{e, kNoise * kNoise};
           }},
          {"bias",
           [](std::uint64_t seed) {
             Examples e = layer_examples(2, 200, seed);
             for (Index i = 0; i < e.y.size(); ++i) e.y.data<double>()[i] += 0.5;
             return Labels{e, 0};
           }},
          {"more heads", [](std::uint64_t seed) {
             return Labels{layer_examples(5, 200, seed, 0.1), 0.01};
           }}};
}

TEST(BestFit, OfWrongLabelsIsNeverCalledRecovered) {
  for (const auto& [what, draw] : families())
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const Labels labels = draw(seed);
      const Recovery r =
          recover(labels.examples, {.heads = 2, .starts = 3, .best_fit = true}, {.threads = 1});
      EXPECT_EQ(name(r.certificate.status), "best_fit") << what;
      ASSERT_TRUE(r.layer.has_value() && r.certificate.best_fit.has_value()) << what;
      EXPECT_EQ(r.layer->heads(), 2) << what;
      EXPECT_TRUE(r.certificate.per_head.empty()) << what;  // no bars: nothing is bounded
      EXPECT_FALSE(r.certificate.best_fit->excess_error.has_value()) << what;
      // No layer predicts noise: the held-out squares are at least those of the noise, less four standard
      // deviations of a chi-square (a chance of 3e-5).
      const double count = double(r.certificate.held_out * kTokens * kDim);
      double squares = 0;
      const Index first = (labels.examples.count() - r.certificate.held_out) * kTokens * kDim;
      for (Index i = first; i < labels.examples.y.size(); ++i)
        squares += std::pow(labels.examples.y.data<double>()[i], 2);
      EXPECT_GE(std::pow(r.certificate.held_out_error, 2) * squares,
                labels.noise_variance * (count - 4 * std::sqrt(2 * count)))
          << what;
      EXPECT_GT(r.certificate.held_out_error, 1e-3) << what;
      EXPECT_EQ(r.certificate.best_fit->excess_low, 0) << what;
      EXPECT_GE(*r.certificate.best_fit->excess_high, r.certificate.held_out_error) << what;
    }
}

TEST(BestFit, ReachesTheLayerThatTheDefaultReaches) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Examples examples = layer_examples(2, 120, seed);
    const Recovery found = recover(examples, {.heads = 2}, {.threads = 1}),
                   fitted = recover(examples, {.heads = 2, .best_fit = true}, {.threads = 1});
    ASSERT_EQ(name(found.certificate.status), "recovered");
    EXPECT_EQ(name(fitted.certificate.status), "best_fit");
    EXPECT_LT(compare_layers(*fitted.layer, *found.layer).worst_error, 1e-8);
  }
}

// The training error is that of the best start, so that more starts never make it worse.
TEST(BestFit, MoreStartsLeaveNoMore) {
  const Examples examples = families().at("network")(1).examples;
  double before = 1;
  for (const int starts : {1, 3, 6}) {
    const Recovery r = recover(examples, {.heads = 2, .starts = starts, .best_fit = true}, {.threads = 1});
    EXPECT_LE(r.certificate.train_error, before * (1 + 1e-6));
    before = r.certificate.train_error;
  }
}

// No layer explains anything of labels whose tokens are zero: W = 0, and an error of one.
TEST(BestFit, OfZeroTokensIsNothing) {
  Examples examples = layer_examples(2, 60, 1);
  std::fill_n(examples.x.data<double>(), examples.x.size(), 0.0);
  for (const RecoverOptions& options :
       {RecoverOptions{.heads = 2, .best_fit = true}, RecoverOptions{.heads = 2},
        RecoverOptions{.method = RecoverMethod::gradient, .heads = 2, .starts = 1, .steps = 10}}) {
    const Recovery r = recover(examples, options, {.threads = 1});
    EXPECT_EQ(r.certificate.train_error, 1);
    EXPECT_EQ(r.certificate.held_out_error, 1);
    EXPECT_EQ(r.layer.has_value(), options.best_fit);
  }
}

TEST(BestFit, DoesNotDependOnThreads) {
  const Examples examples = families().at("noisy network")(2).examples;
  const RecoverOptions options{.heads = 2, .starts = 2, .best_fit = true};
  const Recovery one = recover(examples, options, {.threads = 1}),
                 two = recover(examples, options, {.threads = 2});
  EXPECT_EQ(one.layer->theta.to_doubles(), two.layer->theta.to_doubles());
  EXPECT_EQ(one.layer->w.to_doubles(), two.layer->w.to_doubles());
  EXPECT_EQ(one.certificate.best_fit->excess_high, two.certificate.best_fit->excess_high);
}

TEST(BestFit, NeedsTheNumberOfHeadsAndTheDefaultMethod) {
  EXPECT_THROW((RecoverOptions{.best_fit = true}.validate()), Error);
  EXPECT_THROW((RecoverOptions{.method = RecoverMethod::sculpt, .heads = 2, .best_fit = true}.validate()),
               Error);
}

// Half the mean square difference of two labels of one X, over all pairs: the variance, since all groups have
// the same size.
TEST(NoiseFloor, IsTheSpreadOfLabelsOfTheSameInput) {
  Examples examples = repeated(layer_examples(1, 90, 3));
  examples.y = network(examples.x, 1);
  add_noise(examples.y, kNoise, 1);
  const Index size = kTokens * kDim, n = examples.count();
  const double *x = examples.x.data<double>(), *y = examples.y.data<double>();
  double sum = 0, pairs = 0;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) {
      if (!std::equal(x + i * size, x + (i + 1) * size, x + j * size)) continue;
      pairs += double(size);
      for (Index q = 0; q < size; ++q) sum += std::pow(y[i * size + q] - y[j * size + q], 2) / 2;
    }
  }
  const NoiseFloor floor = noise_floor(hold_out(examples));
  EXPECT_EQ(floor.repeats, n / 3 * 2);
  EXPECT_NEAR(floor.variance, sum / pairs, 1e-12);
  // Four standard errors, at 99.99%.
  EXPECT_NEAR(floor.variance, kNoise * kNoise, 4 * floor.variance_error);
}

TEST(NoiseFloor, IsUnknownWithoutRepeats) {
  EXPECT_EQ(noise_floor(hold_out(layer_examples(1, 50, 1))).repeats, 0);
}

TEST(NoiseFloor, InputsAreHeldOutWhole) {
  Examples examples = repeated(layer_examples(1, 90, 3));
  for (Index i = 0; i < examples.y.size(); ++i)
    examples.y.data<double>()[i] = double(i);  // names of examples
  const Examples together = with_equal_inputs_together(examples);
  const Split split = hold_out_whole_inputs(together);
  EXPECT_EQ(split.held_x.rows, 12 * kTokens);  // 11 would cut a group of three
  const Index size = kTokens * kDim;
  std::set<std::vector<double>> trained;
  for (Index i = 0; i < split.train_x.rows; i += kTokens)
    trained.insert({split.train_x.row(i), split.train_x.row(i) + size});
  for (Index i = 0; i < split.held_x.rows; i += kTokens)
    EXPECT_FALSE(trained.contains({split.held_x.row(i), split.held_x.row(i) + size}));
  // Every label still belongs to its X.
  std::map<double, std::vector<double>> inputs;
  for (Index i = 0; i < 90; ++i)
    inputs[examples.y.data<double>()[i * size]] = {examples.x.data<double>() + i * size,
                                                   examples.x.data<double>() + (i + 1) * size};
  EXPECT_EQ(inputs.size(), 90u);
  for (Index i = 0; i < 90; ++i) {
    const std::vector<double> x(together.x.data<double>() + i * size,
                                together.x.data<double>() + (i + 1) * size);
    EXPECT_EQ(inputs.at(together.y.data<double>()[i * size]), x);
  }
}

// |F - f| / |Y| on fresh inputs, where f is the network without its noise, lies in the 95% interval. Of 30
// intervals at least 24 hold with probability 0.998 if each does with 0.95; the truth has errors of its own.
TEST(ExcessError, IntervalHoldsTheDistanceToTheBestFunction) {
  int held = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Examples examples = repeated(layer_examples(1, 240, seed));
    examples.y = network(examples.x, seed);
    add_noise(examples.y, kNoise, seed);
    const Recovery r = recover(examples, {.heads = 1, .starts = 1, .best_fit = true}, {.threads = 1});
    const BestFitReport& report = *r.certificate.best_fit;
    ASSERT_TRUE(report.noise_floor && report.excess_error);
    const Examples fresh = layer_examples(1, 2000, seed + 1000);
    const Array f = network(fresh.x, seed), found = apply_layer(*r.layer, fresh.x, {.threads = 1});
    double distance = 0, size = 0;
    for (Index i = 0; i < f.size(); ++i) {
      distance += std::pow(f.data<double>()[i] - found.data<double>()[i], 2);
      size += std::pow(f.data<double>()[i], 2) + kNoise * kNoise;
    }
    const double truth = std::sqrt(distance / size);
    held += truth >= *report.excess_low && truth <= *report.excess_high;
    EXPECT_NEAR(std::pow(report.excess_error.value(), 2) + std::pow(*report.noise_floor, 2),
                std::pow(r.certificate.held_out_error, 2), 1e-12);
  }
  EXPECT_GE(held, 24);
}

}  // namespace
}  // namespace headlens::recovery
