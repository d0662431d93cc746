// Finitely many heads: groups of features against the spectrum, the curve against ridge regression on
// Gaussian features, the variance of the kernel against drawn heads.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "headlens/theory.hpp"
#include "linalg/cholesky.hpp"
#include "theory/attention_spectrum.hpp"
#include "theory/gauss_rule.hpp"
#include "theory/head_curve.hpp"
#include "theory/head_variance.hpp"

namespace headlens {
namespace {

TaskOptions square_mean(Index dim, Index keys) {
  return {.task = Task::power_mean, .dim = dim, .min_keys = keys, .max_keys = keys, .degree = 2};
}

// Nine Gauss nodes for the threshold leave up to 2e-4 at degree 3, where predictions are good to some
// percent.
TEST(HeadSpectrum, GroupsSumToTheSpectrumOfAttention) {
  for (const Index dim : {4, 8, 16, 100}) {
    const HeadSpectrum heads = head_spectrum(dim, 3, 4);
    const AttentionSpectrum spectrum(dim, 3);
    for (const HeadLevel& level : heads.levels) {
      if (level.query_degree + level.key_degree > 3) continue;
      double sum = 0;
      for (const double value : level.eigenvalues) sum += value;
      const double want = std::exp(spectrum.log_eigenvalue(level.query_degree, level.key_degree));
      EXPECT_NEAR(sum / want, 1, 1e-3) << dim << ": " << level.query_degree << ", " << level.key_degree;
    }
    EXPECT_NEAR(heads.trace / spectrum.levels(4).trace, 1, 1e-3) << dim;
    double features = 0;
    for (const double value : heads.features) features += value;
    EXPECT_NEAR(features, static_cast<double>(dim + 1), 1e-10);
  }
}

TEST(HeadCurve, TendsToInfinitelyManyHeads) {
  for (const Index dim : {6, 16}) {
    const std::vector<TargetPart> parts = expand(square_mean(dim, 4));
    const LearningCurve limit(AttentionSpectrum(dim, 4), parts, 0.01, 600);
    const HeadCurve curve(head_spectrum(dim, 4, limit.degree()), parts, 0.01);
    for (const Index n : {20, 600}) {
      const double want = limit.best(n).mean_square;
      EXPECT_NEAR(curve.best(n, Index{1} << 30).mean_square / want, 1, 1e-3);
      double before = INFINITY;
      for (const Index heads : {1, 10, 100, 1000}) {
        const double error = curve.best(n, heads).mean_square;
        EXPECT_LE(error, before * (1 + 1e-9));
        EXPECT_GE(error, want * (1 - 1e-3));
        before = error;
      }
    }
  }
}

TEST(HeadCurve, FindsTheFewestHeads) {
  const std::vector<TargetPart> parts = expand(square_mean(8, 4));
  const LearningCurve limit(AttentionSpectrum(8, 4), parts, 0, 512);
  const HeadCurve curve(head_spectrum(8, 4, limit.degree()), parts, 0);
  for (const double share : {0.5, 0.2}) {
    const std::optional<Index> heads = curve.heads_for(512, share * limit.variance());
    ASSERT_TRUE(heads && *heads > 1);
    EXPECT_LE(curve.best(512, *heads).mean_square, share * limit.variance());
    EXPECT_GT(curve.best(512, *heads - 1).mean_square, share * limit.variance());
  }
  EXPECT_FALSE(curve.heads_for(512, 0.5 * limit.best(512).mean_square));
}

constexpr Index kInputs = 300, kFeatures = 60;
constexpr double kSmall = 0.02;  // 20 directions of eigenvalue 1, 280 of this

// Ridge regression with intercept on 60 random combinations of 300 Gaussian inputs, in plain loops.
double simulate(Index n, double ridge, double noise, std::uint64_t seed) {
  Stream stream(seed, "test-random-features");
  Matrix<double> mix(kFeatures, kInputs);
  for (Index j = 0; j < kFeatures; ++j)
    for (Index i = 0; i < kInputs; ++i)
      mix(j, i) = stream.normal() / std::sqrt(double{kFeatures}) * (i < 20 ? 1 : std::sqrt(kSmall));
  const auto draw = [&](std::vector<double>& z, double& target) {
    z.assign(kFeatures, 0.0);
    for (Index i = 0; i < kInputs; ++i) {
      const double x = stream.normal();
      if (i == 0) target = 0.7 * x + 3;
      if (i == kInputs - 1) target += 0.5 * x;
      for (Index j = 0; j < kFeatures; ++j) z[static_cast<std::size_t>(j)] += mix(j, i) * x;
    }
  };
  std::vector<std::vector<double>> z(static_cast<std::size_t>(n));
  std::vector<double> y(z.size()), mean(kFeatures, 0.0);
  double y_mean = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    draw(z[i], y[i]);
    y[i] += noise * stream.normal();
    y_mean += y[i] / static_cast<double>(n);
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += z[i][j] / static_cast<double>(n);
  }
  Matrix<double> gram = Matrix<double>::zeros(kFeatures, kFeatures), v = Matrix<double>::zeros(kFeatures, 1);
  for (std::size_t i = 0; i < z.size(); ++i)
    for (Index j = 0; j < kFeatures; ++j) {
      const double left = z[i][static_cast<std::size_t>(j)] - mean[static_cast<std::size_t>(j)];
      v(j, 0) += left * (y[i] - y_mean);
      for (Index k = 0; k <= j; ++k)
        gram(j, k) += left * (z[i][static_cast<std::size_t>(k)] - mean[static_cast<std::size_t>(k)]);
    }
  for (Index j = 0; j < kFeatures; ++j) gram(j, j) += static_cast<double>(n) * ridge;
  EXPECT_TRUE(cholesky(gram, 1).ok());
  cholesky_solve(gram, v, 1);
  double error = 0;
  std::vector<double> fresh;
  for (int i = 0; i < 300; ++i) {
    double target = 0, value = y_mean;
    draw(fresh, target);
    for (Index j = 0; j < kFeatures; ++j)
      value += v(j, 0) * (fresh[static_cast<std::size_t>(j)] - mean[static_cast<std::size_t>(j)]);
    error += (value - target) * (value - target) / 300;
  }
  return error + noise * noise;
}

// 12 heads of 5 equal features; more samples than features and fewer.
TEST(HeadCurve, PredictsRidgeRegressionOnRandomFeatures) {
  const HeadSpectrum spectrum{{5}, {{0, 1, 20, {1}}, {0, 2, 280, {kSmall}}}, {0}, 25.6};
  const HeadCurve curve(spectrum, {{0, 0, std::log(9.0)}, {0, 1, std::log(0.49)}, {0, 2, std::log(0.25)}},
                        0.3);
  for (const Index n : {40, 200})
    for (const double ridge : {1e-2, 1e-1}) {
      constexpr int kRuns = 64;
      std::vector<double> errors;
      double mean = 0, square = 0;
      for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
        errors.push_back(simulate(n, ridge, 0.3, seed));
        mean += errors.back() / kRuns;
      }
      for (const double error : errors) square += (error - mean) * (error - mean) / ((kRuns - 1.0) * kRuns);
      EXPECT_NEAR(curve.error(n, 12, ridge), mean, 3 * std::sqrt(square)) << n << ", ridge " << ridge;
      EXPECT_LT(3 * std::sqrt(square), 0.1 * mean);
    }
}

// <phi(x), phi(x')>^2 for one head and two sets, drawn together.
double drawn_square(Index dim, Index keys, Stream& stream) {
  const auto d = static_cast<std::size_t>(dim + 1);
  std::vector<double> head(d * d);
  for (double& value : head) value = 0.5 * stream.normal();
  const auto token = [&] {
    std::vector<double> x(d);
    double square = 0;
    for (std::size_t i = 0; i + 1 < d; ++i) square += (x[i] = stream.normal()) * x[i];
    for (std::size_t i = 0; i + 1 < d; ++i) x[i] /= std::sqrt(square);
    x[d - 1] = 1;
    return x;
  };
  const auto features = [&] {
    const std::vector<double> query = token();
    std::vector<double> phi(d, 0.0);
    for (Index k = 0; k < keys; ++k) {
      const std::vector<double> key = token();
      double score = 0;
      for (std::size_t i = 0; i < d; ++i)
        for (std::size_t j = 0; j < d; ++j) score += query[i] * head[i * d + j] * key[j];
      for (std::size_t j = 0; j < d; ++j) phi[j] += std::max(0.0, score) * key[j] / static_cast<double>(keys);
    }
    return phi;
  };
  const std::vector<double> first = features(), second = features();
  double product = 0;
  for (std::size_t j = 0; j < d; ++j) product += first[j] * second[j];
  return product * product;
}

// A_w / N + (1 - 1/N) v_w v_w^T for w = (size e, threshold) as a matrix in the plane of two directions, with
// the last coordinate third; each of the d - 2 directions across that plane has the entry `across`.
struct Plane {
  double entries[3][3] = {}, across = 0;

  Plane(const GaussRule& rule, double dim, double keys, double size, double threshold, double cosine) {
    const double e[2] = {cosine, std::sqrt(std::max(0.0, 1 - cosine * cosine))};
    double first[2] = {}, second[3] = {};  // E[relu t^k], E[relu^2 t^k]
    for (std::size_t i = 0; i < rule.nodes.size(); ++i) {
      const double t = rule.nodes[i], relu = std::max(0.0, size * t + threshold), power[3] = {1, t, t * t};
      for (int k = 0; k < 2; ++k) first[k] += rule.weights[i] * relu * power[k];
      for (int k = 0; k < 3; ++k) second[k] += rule.weights[i] * relu * relu * power[k];
    }
    const double rest = (second[0] - second[2]) / (dim - 1);
    const double mean[3] = {first[1] * e[0], first[1] * e[1], first[0]};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        const double square = a < 2 && b < 2     ? (a == b ? rest : 0) + (second[2] - rest) * e[a] * e[b]
                              : a == 2 && b == 2 ? second[0]
                                                 : second[1] * e[std::min(a, b)];
        entries[a][b] = square / keys + (1 - 1 / keys) * mean[a] * mean[b];
      }
    across = rest / keys;
  }
};

double product_of(const Plane& a, const Plane& b, double dim) {
  double sum = (dim - 2) * a.across * b.across;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sum += a.entries[i][j] * b.entries[i][j];
  return sum;
}

// The integral of head_variance.hpp with more nodes in every rule.
double finer_second_moment(Index dim, Index keys) {
  const double d = static_cast<double>(dim), n = static_cast<double>(keys), scale = std::sqrt(0.5);
  const GaussRule coordinate = coordinate_rule(120, dim), query = coordinate_rule(8, dim),
                  length = chi_square_rule(6, d), threshold = normal_rule(14), step = normal_rule(10),
                  beside = chi_square_rule(5, d - 1);
  double sum = 0;
  for (std::size_t i = 0; i < length.nodes.size(); ++i)
    for (std::size_t j = 0; j < threshold.nodes.size(); ++j) {
      const double size = scale * std::sqrt(length.nodes[i]), corner = scale * threshold.nodes[j];
      const Plane first(coordinate, d, n, size, corner, 1);
      for (std::size_t q = 0; q < query.nodes.size(); ++q)
        for (std::size_t k = 0; k < step.nodes.size(); ++k)
          for (std::size_t l = 0; l < beside.nodes.size(); ++l)
            for (std::size_t t = 0; t < step.nodes.size(); ++t) {
              const double rho = 0.5 * (1 + query.nodes[q]), free = scale * std::sqrt(1 - rho * rho);
              const double along = rho * size + free * step.nodes[k],
                           whole = std::hypot(along, free * std::sqrt(beside.nodes[l]));
              const Plane second(coordinate, d, n, whole, rho * corner + free * step.nodes[t], along / whole);
              sum += length.weights[i] * threshold.weights[j] * query.weights[q] * step.weights[k] *
                     beside.weights[l] * step.weights[t] * product_of(first, second, d);
            }
    }
  return sum;
}

TEST(HeadVariance, RulesAreFineEnoughForThreeDigits) {
  for (const auto& [dim, keys] : std::vector<std::pair<Index, Index>>{{2, 1}, {3, 64}, {12, 4}})
    EXPECT_NEAR(head_second_moment(dim, keys) / finer_second_moment(dim, keys), 1, 1e-3)
        << dim << ", " << keys;
}

// Drawn heads have heavy tails: 60000 draws know the mean to 1% or 5%, enough to check the formula itself.
TEST(HeadVariance, IsThatOfDrawnHeads) {
  for (const auto& [dim, keys] : std::vector<std::pair<Index, Index>>{{3, 1}, {5, 3}, {12, 4}}) {
    constexpr int kDraws = 60000;
    Stream stream(7, "test-head-variance");
    double mean = 0, square = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = drawn_square(dim, keys, stream);
      mean += value / kDraws;
      square += value * value / kDraws;
    }
    const double error = std::sqrt((square - mean * mean) / kDraws);
    EXPECT_NEAR(head_second_moment(dim, keys), mean, 4 * error) << dim << ", " << keys;
    EXPECT_LT(4 * error, 0.2 * mean);
  }
}

TEST(HeadVariance, FallsAsOneOverTheHeads) {
  const auto of = [](Index heads) {
    return evaluate_theory({.task = square_mean(8, 4), .heads = heads, .samples = {64}}, {});
  };
  const Theory few = of(10), many = of(1000);
  EXPECT_NEAR(*few.kernel_variance / *many.kernel_variance, 100, 1e-9);
  EXPECT_NEAR(*few.kernel_deviation / *many.kernel_deviation, 10, 1e-9);
}

}  // namespace
}  // namespace headlens
