// Heads around the identity: the lattice of rotations by sum rules, the kernel against that of rfa at b = 0
// and against the kernel matrix.
#include <gtest/gtest.h>

#include <cmath>

#include "headlens/kernel.hpp"
#include "headlens/theory.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "theory/attention_spectrum.hpp"
#include "theory/biased_theory.hpp"
#include "theory/harmonics.hpp"

namespace headlens {
namespace {

TaskOptions task_of(Task task, int degree, Index dim, Index keys) {
  return {.task = task, .dim = dim, .min_keys = keys, .max_keys = keys, .degree = degree};
}

// [X^power] at the point (a, b), from a lattice that no path of so many steps leaves.
double returns(Index dim, RotationType type, Index a, Index b, int power) {
  const std::vector<LatticePoint> points = lattice(type, a + power, b + power);
  const Matrix<double> x = product_matrix(dim, type, points);
  const Index count = static_cast<Index>(points.size());
  Matrix<double> vector = Matrix<double>::zeros(count, 1), next(count, 1);
  Index at = -1;
  for (Index i = 0; i < count; ++i)
    if (points[static_cast<std::size_t>(i)].query_degree == a &&
        points[static_cast<std::size_t>(i)].key_degree == b)
      at = i;
  if (at < 0) return 0;
  vector(at, 0) = 1;
  for (int step = 0; step < power; ++step) {
    multiply(Trans::no, Trans::no, 1.0, x, vector, 0.0, next, 1);
    std::swap(vector, next);
  }
  return vector(at, 0);
}

// The types fill H_a x H_b, and the trace there of multiplication by t^p is that of a product of projections:
// D_a D_b E[t^p]. Powers of 4 and more go round the squares of the lattice, so signs are tested, too.
TEST(RotationLattice, SumsOverTypesAreThoseOfHarmonics) {
  for (const Index dim : {3, 4, 5, 6, 16})
    for (const auto& [a, b] :
         std::vector<std::pair<Index, Index>>{{0, 0}, {1, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 4}, {3, 3}})
      for (const int power : {0, 2, 4, 6}) {
        double sum = 0;
        for (Index l1 = 0; l1 <= a + b; ++l1)
          for (Index l2 = 0; l2 <= l1; ++l2)
            if (std::isfinite(log_dimension(dim, {l1, l2})))
              sum += std::exp(log_dimension(dim, {l1, l2})) * returns(dim, {l1, l2}, a, b, power);
        const double want =
            std::exp(log_harmonics(dim, a) + log_harmonics(dim, b) + log_monomial_share(dim, power, 0));
        EXPECT_NEAR(sum / want, 1, 1e-11) << dim << ": " << a << ", " << b << ", power " << power;
      }
}

TEST(BiasedKernel, WithoutBiasIsThatOfAttention) {
  for (const Index dim : {3, 7, 16}) {
    const AttentionSpectrum spectrum(dim, 1);
    const BiasedKernel kernel(dim, 0);
    for (const RotationType type : {RotationType{0, 0}, {1, 0}, {2, 1}}) {
      const BiasedBlock block = kernel.block(type, 4, 4);
      for (std::size_t i = 0; i < block.points.size(); ++i)
        for (std::size_t j = 0; j < block.points.size(); ++j) {
          const auto [a, b] = block.points[i];
          const double want = i == j ? std::exp(spectrum.log_eigenvalue(a, b)) : 0.0;
          // The series ends after T = 54 terms, which leaves some (degree^2 / T)^(d + 1/2).
          const double left = 4 * std::pow(16.0 / 54, static_cast<double>(dim) + 0.5) + 1e-12;
          EXPECT_NEAR(block.kernel(static_cast<Index>(i), static_cast<Index>(j)), want, left * want + 1e-15);
        }
    }
  }
}

TEST(BiasedTheory, WithoutBiasIsTheoryOfAttention) {
  for (const Task task : {Task::native, Task::correlation, Task::power_mean, Task::query_power})
    for (const bool pure : {false, true}) {
      TheoryOptions options{.task = task_of(task, 2, 8, 3), .samples = {16, 300}};
      options.task.pure = pure && task == Task::correlation;
      const Theory plain = evaluate_theory(options, {});
      options.model = ModelKind::brfa;
      options.bias_scale = 0;
      const Theory biased = evaluate_theory(options, {});
      EXPECT_FALSE(biased.complexity_is_lower_bound);
      EXPECT_NEAR(biased.complexity / plain.complexity, 1, 1e-3) << name(task);
      EXPECT_NEAR(biased.variance / plain.variance, 1, 1e-6) << name(task);
      EXPECT_NEAR(biased.kernel_mean / plain.kernel_mean, 1, 1e-6);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_NEAR(*biased.points[i].predicted_error / *plain.points[i].predicted_error, 1, 5e-3)
            << name(task);
    }
}

Array kernel_of(const Sets& sets, double bias) {
  KernelOptions options;
  options.features.kind = ModelKind::brfa;
  options.features.bias_scale = bias;
  return attention_kernel(sets, options, {}).values;
}

// The norm y^T K^-1 y through nested examples grows towards B, and never beyond.
TEST(BiasedTheory, ComplexityIsTheLimitFromBelowOfNormsThroughExamples) {
  struct Case {
    Task task;
    int degree;
    double bias, reached;
  };
  for (const auto& [task, degree, bias, reached] :
       {Case{Task::native, 1, 1, 0.95}, Case{Task::native, 1, 0.5, 0.95},
        Case{Task::correlation, 1, 0.5, 0.9}, Case{Task::power_mean, 2, 1, 0.85}}) {
    TaskOptions options = task_of(task, degree, 3, 1);
    options.count = 1200;
    const double limit =
        evaluate_theory({.task = options, .model = ModelKind::brfa, .bias_scale = bias, .samples = {4}}, {})
            .complexity;
    const LabelledSets data = generate(options, {});
    const Array kernel = kernel_of(data.sets, bias);
    double before = 0;
    for (const Index n : {100, 400, 1200}) {
      Matrix<double> part(n, n), alpha(n, 1);
      for (Index i = 0; i < n; ++i) {
        alpha(i, 0) = data.targets.values[static_cast<std::size_t>(i)];
        for (Index j = 0; j < n; ++j)
          part(i, j) = kernel.data<double>()[i * 1200 + j] + (i == j ? 1e-13 : 0.0);
      }
      ASSERT_TRUE(cholesky(part, 1).ok());
      cholesky_solve(part, alpha, 1);
      double norm = 0;
      for (Index i = 0; i < n; ++i) norm += alpha(i, 0) * data.targets.values[static_cast<std::size_t>(i)];
      EXPECT_GT(norm, before);
      EXPECT_LT(norm, limit * 1.001) << name(task) << ", b " << bias << ", n " << n;
      before = norm;
    }
    EXPECT_GT(before, reached * limit) << name(task) << ", b " << bias;
  }
}

// To four standard errors over drawn sets.
TEST(BiasedTheory, KernelMeansAreThoseOfDrawnSets) {
  TaskOptions options = task_of(Task::native, 1, 5, 3);
  options.count = 2000;
  const Theory theory =
      evaluate_theory({.task = options, .model = ModelKind::brfa, .bias_scale = 1.5, .samples = {4}}, {});
  const Array kernel = kernel_of(generate(options, {}).sets, 1.5);
  double mean = 0, square = 0, most = 0;
  for (Index i = 0; i < options.count; ++i) {
    const double value = kernel.data<double>()[i * options.count + i];
    mean += value / 2000;
    square += value * value / 2000;
    most = std::max(most, value);
  }
  EXPECT_NEAR(theory.kernel_mean, mean, 4 * std::sqrt((square - mean * mean) / 2000));
  EXPECT_LT(most, theory.kernel_most);
}

TEST(BiasedTheory, ConstantTargetsHaveNoError) {
  TaskOptions nothing = task_of(Task::correlation, 0, 8, 3);
  nothing.pure = true;
  for (const TaskOptions& task : {task_of(Task::power_mean, 0, 8, 3), nothing}) {
    const Theory theory = evaluate_theory({.task = task, .model = ModelKind::brfa, .samples = {100}}, {});
    EXPECT_EQ(theory.variance, 0);
    EXPECT_FALSE(theory.points[0].predicted_error);
    EXPECT_EQ(theory.complexity == 0, task.pure);
  }
}

TEST(Bound, IsSilentWhereTheComplexityIsKnownFromBelowOnly) {
  const Theory theory = evaluate_theory({.task = task_of(Task::correlation, 1, 16, 4),
                                         .model = ModelKind::brfa,
                                         .bias_scale = 4,
                                         .samples = {64}},
                                        {});
  EXPECT_TRUE(theory.complexity_is_lower_bound);
  EXPECT_FALSE(theory.points[0].bound || theory.points[0].square_bound);
  EXPECT_TRUE(theory.points[0].predicted_error);
}

}  // namespace
}  // namespace headlens
