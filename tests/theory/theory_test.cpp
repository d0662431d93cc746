// Targets in harmonics, their complexity and predicted curves: against quadrature, random sets and the kernel
// matrix.
#include "headlens/theory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/kernel.hpp"
#include "linalg/cholesky.hpp"
#include "reference/sphere.hpp"
#include "theory/complexity.hpp"
#include "theory/learning_curve.hpp"

namespace headlens {
namespace {

using namespace reference;
using testing::HasSubstr;

TaskOptions task_of(Task task, int degree, Index dim = 16, Index keys = 16) {
  return {.task = task, .dim = dim, .min_keys = keys, .max_keys = keys, .degree = degree};
}

double total(const std::vector<TargetPart>& parts) {
  double sum = 0;
  for (const TargetPart& part : parts) sum += std::exp(part.log_square);
  return sum;
}

double complexity_of(const TaskOptions& task, ModelKind model = ModelKind::rfa) {
  return complexity(expand(task), *make_spectrum(model, task.dim, task.min_keys));
}

TEST(Target, PartsSumToTheMeanSquare) {
  for (const Index dim : {2, 3, 16, 40}) {
    const Rule rule = coordinate_rule(dim);
    const double d = static_cast<double>(dim);
    for (const int p : {0, 1, 2, 3, 6}) {
      const auto square =
          static_cast<double>(mean(rule, [&](Real t) { return std::pow(t, static_cast<Real>(2 * p)); }));
      EXPECT_NEAR(total(expand(task_of(Task::power_mean, p, dim, 1))) / square, 1, 1e-12);
      EXPECT_NEAR(total(expand(task_of(Task::query_power, p, dim, 5))) / square, 1, 1e-12);
      EXPECT_NEAR(total(expand(task_of(Task::correlation, p, dim, 1))) * d / square, 1, 1e-12);
    }
    const auto native = static_cast<double>(mean(rule, [](Real s) {
      const Real value = s * std::erfc(-s / std::numbers::sqrt2_v<Real>) / 2 +
                         std::exp(-s * s / 2) / std::sqrt(2 * std::numbers::pi_v<Real>);
      return value * value;
    }));
    EXPECT_NEAR(total(expand(task_of(Task::native, 1, dim, 1))) * d / native, 1, 1e-12);
  }
}

// The share of P_a(<x_0, x_i>) in c_0, against quadrature.
TEST(Target, NativePartsAgreeWithQuadrature) {
  const Index dim = 5;
  const Rule rule = coordinate_rule(dim);
  const std::vector<TargetPart> parts = expand(task_of(Task::native, 1, dim, 1));
  for (const Index a : {0, 1, 2, 4, 6}) {
    double share = 0;
    for (const TargetPart& part : parts)
      if (part.query_degree == a) share += std::exp(part.log_square);
    const Real inner = mean(rule, [&](Real s) {
      return gegenbauer(dim, a, s) * (s * std::erfc(-s / std::numbers::sqrt2_v<Real>) / 2 +
                                      std::exp(-s * s / 2) / std::sqrt(2 * std::numbers::pi_v<Real>));
    });
    const Real norm = mean(rule, [&](Real s) { return gegenbauer(dim, a, s) * gegenbauer(dim, a, s); });
    const auto want = static_cast<double>(inner * inner / norm / dim);
    EXPECT_NEAR(share, want, 1e-10 * want + 1e-22) << a;
  }
}

// Variances of generated targets, pure ones included, to four standard errors.
TEST(Target, VariancesAreThoseOfGeneratedSets) {
  std::vector<TaskOptions> tasks{task_of(Task::power_mean, 3, 4, 3), task_of(Task::query_power, 2, 4, 3),
                                 task_of(Task::correlation, 1, 4, 3), task_of(Task::correlation, 2, 4, 3),
                                 task_of(Task::native, 1, 4, 3)};
  for (const int degree : {1, 2, 3}) {
    tasks.push_back(task_of(Task::correlation, degree, 4, 3));
    tasks.back().pure = true;
    tasks.back().matrix = TaskMatrix::random;
  }
  for (TaskOptions& task : tasks) {
    task.count = 40000;
    const std::vector<double> y = generate(task, {}).targets.values;
    double first = 0, second = 0, fourth = 0;
    for (const double value : y) first += value / static_cast<double>(y.size());
    for (const double value : y) {
      second += std::pow(value - first, 2) / static_cast<double>(y.size());
      fourth += std::pow(value - first, 4) / static_cast<double>(y.size());
    }
    const double error = std::sqrt((fourth - second * second) / static_cast<double>(y.size()));
    const Theory theory = evaluate_theory({.task = task, .samples = {64}}, {});
    EXPECT_NEAR(theory.variance, second, 4 * error)
        << name(task.task) << " " << task.degree << " " << task.pure;
  }
}

// The digits of the first computation of these numbers, by quadrature.
TEST(Complexity, HasTheKnownValues) {
  const auto expect_digits = [](double found, double known, double half_digit) {
    EXPECT_NEAR(found, known, half_digit);
  };
  const double power_means[][2] = {{3.3, .05}, {11.9, .05}, {146, .5}, {3067, .5}, {8436, .5}, {32300, 50}};
  for (int p = 1; p <= 6; ++p)
    expect_digits(complexity_of(task_of(Task::power_mean, p)), power_means[p - 1][0], power_means[p - 1][1]);
  const double correlations[][2] = {{90, .5}, {6905, .5}, {1.8e5, 5e3}, {1.5e6, 5e4}};
  for (int p = 1; p <= 4; ++p)
    expect_digits(complexity_of(task_of(Task::correlation, p)), correlations[p - 1][0],
                  correlations[p - 1][1]);
  struct Ratio {
    int degree;
    Index keys;
    double known, half_digit;
  };
  for (const auto& [degree, keys, known, half_digit] :
       {Ratio{2, 8, 35, .5}, Ratio{2, 16, 62, .5}, Ratio{2, 32, 117, .5}, Ratio{4, 8, 144, .5},
        Ratio{4, 16, 930, .5}, Ratio{4, 32, 6650, 5}}) {
    const TaskOptions task = task_of(Task::power_mean, degree, 16, keys);
    expect_digits(complexity_of(task, ModelKind::mlp) / complexity_of(task), known, half_digit);
  }
}

TEST(Complexity, OfAttentionDoesNotDependOnTheNumberOfKeys) {
  for (const Task task : {Task::power_mean, Task::correlation, Task::query_power, Task::native})
    EXPECT_NEAR(complexity_of(task_of(task, 3, 9, 1)) / complexity_of(task_of(task, 3, 9, 77)), 1, 1e-12);
}

// y^T K^-1 y, the squared norm of the smoothest function through the examples.
double norm_through(const TaskOptions& task, ModelKind model) {
  const LabelledSets data = generate(task, {});
  KernelOptions options;
  options.features.kind = model;
  Array kernel = attention_kernel(data.sets, options, {}).values;
  const Index n = task.count;
  for (Index i = 0; i < n; ++i) kernel.data<double>()[i * n + i] += 1e-13;
  EXPECT_TRUE(cholesky({kernel.data<double>(), n, n}, 1).ok());
  std::vector<double> alpha = data.targets.values;
  cholesky_solve({kernel.data<double>(), n, n}, {alpha.data(), n, 1}, 1);
  double sum = 0;
  for (Index i = 0; i < n; ++i)
    sum += alpha[static_cast<std::size_t>(i)] * data.targets.values[static_cast<std::size_t>(i)];
  return sum;
}

// Nested examples: the norm grows, and never beyond B. S changes neither.
TEST(Complexity, IsTheLimitFromBelowOfNormsThroughExamples) {
  struct Case {
    ModelKind model;
    Task task;
    int degree;
    Index keys;
    TaskMatrix matrix;
    double reached;  // share of B at n = 1500
  };
  for (const auto& c : {Case{ModelKind::rfa, Task::correlation, 2, 1, TaskMatrix::identity, 0.95},
                        Case{ModelKind::rfa, Task::correlation, 2, 1, TaskMatrix::random, 0.95},
                        Case{ModelKind::rfa, Task::power_mean, 2, 3, TaskMatrix::identity, 0.99},
                        Case{ModelKind::rfa, Task::native, 1, 1, TaskMatrix::shift, 0.95},
                        Case{ModelKind::mlp, Task::correlation, 1, 1, TaskMatrix::random, 0.95},
                        Case{ModelKind::mlp, Task::power_mean, 2, 2, TaskMatrix::identity, 0.95}}) {
    TaskOptions task = task_of(c.task, c.degree, 3, c.keys);
    task.matrix = c.matrix;
    const double limit = complexity_of(task, c.model);
    double before = 0;
    for (const Index n : {100, 300, 1500}) {
      task.count = n;
      const double norm = norm_through(task, c.model);
      EXPECT_GT(norm, before);
      EXPECT_LT(norm, limit * (1 + 1e-9)) << name(c.model) << " " << name(c.task) << " n " << n;
      before = norm;
    }
    EXPECT_GT(before, c.reached * limit) << name(c.model) << " " << name(c.task);
  }
}

TEST(Complexity, IsFiniteInHighDimensionsAndRefusedBeyondNumbers) {
  for (const ModelKind model : {ModelKind::rfa, ModelKind::mlp})
    for (const Index dim : {2, 3, 1000, 5000})
      for (const Task task : {Task::power_mean, Task::correlation, Task::native}) {
        const double value = complexity_of(task_of(task, 4, dim, 3), model);
        EXPECT_TRUE(std::isfinite(value) && value > 0) << name(model) << " " << name(task) << " d " << dim;
      }
  const TheoryOptions beyond{
      .task = task_of(Task::correlation, 64, 1000000), .model = ModelKind::mlp, .samples = {64}};
  EXPECT_THROW(static_cast<void>(evaluate_theory(beyond, {})), Error);
}

// A made-up kernel: 20 directions of eigenvalue 1, 280 of 0.02, and nothing else.
class TwoLevels : public KernelSpectrum {
 public:
  double log_eigenvalue(Index, Index key_degree) const override {
    return key_degree == 1 ? 0 : std::log(0.02);
  }
  Levels levels(Index) const override { return {{{1, 20}, {0.02, 280}}, 25.6, 0, 0}; }
};

// Ridge regression with intercept on Gaussian features of these variances, in plain loops.
double simulate(Index n, double ridge, double noise, std::uint64_t seed) {
  constexpr Index kFeatures = 300;
  Stream stream(seed, "test-two-levels");
  const auto draw = [&](std::vector<double>& x, double& y) {
    for (Index j = 0; j < kFeatures; ++j)
      x[static_cast<std::size_t>(j)] = stream.normal() * (j < 20 ? 1 : std::sqrt(0.02));
    y = 0.7 * x[0] + 0.5 * x[299] / std::sqrt(0.02) + 3 + noise * stream.normal();
  };
  std::vector<std::vector<double>> x(static_cast<std::size_t>(n), std::vector<double>(kFeatures));
  std::vector<double> y(static_cast<std::size_t>(n)), mean(kFeatures, 0.0);
  double y_mean = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    draw(x[i], y[i]);
    y_mean += y[i] / static_cast<double>(n);
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += x[i][j] / static_cast<double>(n);
  }
  Matrix<double> gram = Matrix<double>::zeros(kFeatures, kFeatures), v = Matrix<double>::zeros(kFeatures, 1);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (Index j = 0; j < kFeatures; ++j) {
      const double left = x[i][static_cast<std::size_t>(j)] - mean[static_cast<std::size_t>(j)];
      v(j, 0) += left * (y[i] - y_mean);
      for (Index k = 0; k <= j; ++k)
        gram(j, k) += left * (x[i][static_cast<std::size_t>(k)] - mean[static_cast<std::size_t>(k)]);
    }
  for (Index j = 0; j < kFeatures; ++j) gram(j, j) += static_cast<double>(n) * ridge;
  EXPECT_TRUE(cholesky(gram, 1).ok());
  cholesky_solve(gram, v, 1);
  double error = 0;
  std::vector<double> fresh(kFeatures);
  for (int i = 0; i < 500; ++i) {
    double target = 0, value = y_mean;
    draw(fresh, target);
    for (Index j = 0; j < kFeatures; ++j)
      value += v(j, 0) * (fresh[static_cast<std::size_t>(j)] - mean[static_cast<std::size_t>(j)]);
    error += (value - target) * (value - target) / 500;
  }
  return error;
}

TEST(LearningCurve, PredictsRidgeRegressionOnGaussianFeatures) {
  const TwoLevels spectrum;
  const std::vector<TargetPart> parts{{0, 0, std::log(9.0)}, {0, 1, std::log(0.49)}, {0, 2, std::log(0.25)}};
  const LearningCurve curve(spectrum, parts, 0.3, 100);
  EXPECT_NEAR(curve.variance(), 0.49 + 0.25 + 0.09, 1e-14);
  for (const double ridge : {1e-3, 1e-1}) {
    std::vector<double> errors;
    double mean = 0, square = 0;
    for (std::uint64_t seed = 0; seed < 48; ++seed) {
      errors.push_back(simulate(100, ridge, 0.3, seed));
      mean += errors.back() / 48;
    }
    for (const double error : errors) square += (error - mean) * (error - mean) / (47.0 * 48);
    EXPECT_NEAR(curve.error(100, ridge), mean, 3 * std::sqrt(square)) << "ridge " << ridge;
    EXPECT_LT(3 * std::sqrt(square), 0.06 * mean);
  }
}

TEST(LearningCurve, StartsAtTheMeanAndFalls) {
  for (const ModelKind model : {ModelKind::rfa, ModelKind::mlp})
    for (const Task task : {Task::power_mean, Task::query_power, Task::correlation, Task::native}) {
      const Theory theory = evaluate_theory(
          {.task = task_of(task, 2, 6, 4), .model = model, .samples = {2, 4, 16, 64, 256, 1024, 4096}}, {});
      // From two examples nothing is learned but the mean, whose error is 3/2 of the variance.
      EXPECT_NEAR(*theory.points[0].predicted_error, 1.5, 0.1) << name(model) << " " << name(task);
      for (std::size_t i = 1; i < theory.points.size(); ++i)
        EXPECT_LT(*theory.points[i].predicted_error, *theory.points[i - 1].predicted_error);
    }
}

// More levels are kept for more samples; what was left out before must not have mattered.
TEST(LearningCurve, KeepsEnoughLevels) {
  for (const auto& [model, dim] : std::vector<std::pair<ModelKind, Index>>{{ModelKind::rfa, 2},
                                                                           {ModelKind::rfa, 4},
                                                                           {ModelKind::rfa, 16},
                                                                           {ModelKind::mlp, 3},
                                                                           {ModelKind::mlp, 16}}) {
    const TaskOptions task = task_of(Task::power_mean, 2, dim, 3);
    const auto spectrum = make_spectrum(model, dim, 3);
    const LearningCurve few(*spectrum, expand(task), 0, 1024), many(*spectrum, expand(task), 0, 32768);
    EXPECT_NEAR(few.best(1024).mean_square / many.best(1024).mean_square, 1, 0.005)
        << name(model) << " d " << dim;
  }
}

TEST(LearningCurve, ConstantTargetsHaveNoError) {
  TaskOptions nothing = task_of(Task::correlation, 0);
  nothing.pure = true;
  for (const TaskOptions& task : {task_of(Task::power_mean, 0), task_of(Task::query_power, 0), nothing}) {
    const Theory theory = evaluate_theory({.task = task, .samples = {100}}, {});
    EXPECT_EQ(theory.variance, 0);
    EXPECT_FALSE(theory.points[0].predicted_error);
    EXPECT_GE(theory.complexity, 0);
  }
  TaskOptions noisy = task_of(Task::power_mean, 0);
  noisy.noise = 0.5;
  const Theory theory = evaluate_theory({.task = noisy, .samples = {100}}, {});
  EXPECT_NEAR(*theory.points[0].predicted_error, 1.01, 1e-3);  // the mean of 100 noisy constants
}

TEST(TheoryOptions, RefuseWhatHasNoTheory) {
  const auto refusal = [](const TheoryOptions& options) {
    try {
      static_cast<void>(evaluate_theory(options, {}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::vector<Index> samples{64};
  EXPECT_THAT(refusal({.task = task_of(Task::power_mean, 2, 1), .samples = samples}),
              HasSubstr("dim: 1 given"));
  EXPECT_THAT(refusal({.task = task_of(Task::mixture, 2), .samples = samples}), HasSubstr("depends on beta"));
  TaskOptions shifted = task_of(Task::correlation, 1);
  shifted.matrix = TaskMatrix::shift;
  EXPECT_THAT(refusal({.task = shifted, .model = ModelKind::brfa, .samples = samples}),
              HasSubstr("for brfa theory knows the identity alone"));
  EXPECT_THAT(refusal({.task = task_of(Task::power_mean, 65), .samples = samples}), HasSubstr("degree: 65"));
  EXPECT_THAT(refusal({.task = task_of(Task::power_mean, 2)}), HasSubstr("samples: none given"));
  EXPECT_THAT(refusal({.task = task_of(Task::power_mean, 2), .samples = {64, 1}}),
              HasSubstr("samples: 1 given"));
  TaskOptions ragged = task_of(Task::power_mean, 2);
  ragged.max_keys = 20;
  EXPECT_THAT(refusal({.task = ragged, .samples = samples}), HasSubstr("sets of one size"));
}

}  // namespace
}  // namespace headlens
