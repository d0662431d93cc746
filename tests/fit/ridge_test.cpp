// Ridge fits against dense linear algebra done the slow way, and against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/design/design_matrix.hpp"
#include "cpu/features/feature_map.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "linalg/gram.hpp"
#include "linalg/regularised.hpp"
#include "reference/dense.hpp"
#include "reference/features.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;

Dense reference_features(const Model& model, const Sets& sets) {
  const Index width = model.dim + 1;
  Dense phi(sets.count(), model.features.heads * width);
  for (Index s = 0; s < sets.count(); ++s) {
    const PlainSet set = plain_set(sets, s, model.features.positions);
    for (Index m = 0; m < model.features.heads; ++m) {
      const std::vector<Real> head = head_features(set, model.heads, m, model.features.score);
      for (Index j = 0; j < width; ++j)
        phi(s, m * width + j) = static_cast<double>(head[static_cast<std::size_t>(j)]);
    }
  }
  return phi;
}

Dense values_of(const Model& model) {
  const Index q = model.outputs;
  Dense v(model.values.size() / q, q);
  for (Index i = 0; i < model.values.size(); ++i) v.values[static_cast<std::size_t>(i)] = model.values.at(i);
  return v;
}

Dense ridge_targets(const LabelledSets& data) {
  Dense y(data.sets.count(), data.targets.outputs);
  y.values = data.targets.values;
  return y;
}

double widest_difference(const Array& a, const Array& b) {
  double worst = 0, scale = 0;
  for (Index i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a.at(i) - b.at(i)));
    scale = std::max(scale, std::abs(b.at(i)));
  }
  return worst / scale;
}

FitOptions options_for(Index heads, std::optional<double> ridge, Solver solver = Solver::automatic) {
  FitOptions options;
  options.features.heads = heads;
  options.features.seed = 4;
  options.ridge = ridge;
  options.solver = solver;
  return options;
}

TEST(Ridge, SatisfiesItsNormalEquations) {
  const LabelledSets data = labelled(ragged_sets<double>(60, 5, 3, 1), 2, 2);
  for (const Index heads : {5, 40})
    for (const bool intercept : {true, false}) {
      FitOptions options = options_for(heads, 1e-3);
      options.intercept = intercept;
      const Fit result = fit(data, options, {});
      ASSERT_EQ(result.report.status, FitStatus::solved);
      Dense phi = reference_features(result.model, data.sets), y = ridge_targets(data);
      if (intercept) centre(phi), centre(y);
      const Dense v = values_of(result.model);
      const Dense rhs = scaled(multiply(transposed(phi), y), 1.0 / 60);
      const Dense gradient = add(scaled(multiply(transposed(phi), multiply(phi, v)), 1.0 / 60),
                                 add(scaled(v, 1e-3), scaled(rhs, -1)));
      EXPECT_LT(frobenius(gradient), 1e-9 * frobenius(rhs));
      EXPECT_LT(result.report.residual, 1e-9);
    }
}

TEST(Ridge, AllSolversAgree) {
  const LabelledSets data = labelled(ragged_sets<double>(150, 6, 3, 3), 4, 2);
  for (const Index heads : {16, 60}) {  // p = 64 < n and p = 256 > n
    const Array dual = predict(fit(data, options_for(heads, 1e-4, Solver::dual), {}).model, data.sets, {});
    for (const Solver solver : {Solver::primal, Solver::iterative}) {
      const Fit other = fit(data, options_for(heads, 1e-4, solver), {});
      EXPECT_EQ(other.report.status, FitStatus::solved) << name(solver);
      EXPECT_LT(widest_difference(predict(other.model, data.sets, {}), dual), 1e-8)
          << name(solver) << " heads " << heads;
    }
  }
}

TEST(Ridge, FallsBackToConjugateGradientsWhenTheGramDoesNotFit) {
  const LabelledSets data = labelled(equal_sets<double>(2500, 2, 2, 3), 4);
  FitOptions options = options_for(1000, 1e-2);
  const Array direct = predict(fit(data, options, {}).model, data.sets, {});
  std::string note;
  Execution small{.max_memory_bytes = 80ULL << 20};
  small.log = [&](std::string_view text) { note = text; };
  options.block_sets = 1024;
  const Fit iterative = fit(data, options, small);
  EXPECT_THAT(note, testing::HasSubstr("conjugate gradients"));
  EXPECT_THAT(iterative.report.method, testing::HasSubstr("conjugate gradients"));
  EXPECT_LT(widest_difference(predict(iterative.model, data.sets, {}), direct), 1e-8);
  EXPECT_THROW((void)fit(data, options, {.max_memory_bytes = 1 << 20}), Error);
}

// Leaves out every example in turn, keeping the total penalty n ridge, and refits from scratch.
double brute_force_leave_one_out(Dense phi, const Dense& y, double total_penalty, bool intercept) {
  double squares = 0;
  for (Index out = 0; out < y.rows; ++out) {
    Dense a(y.rows - 1, phi.cols), b(y.rows - 1, y.cols);
    for (Index i = 0, row = 0; i < y.rows; ++i) {
      if (i == out) continue;
      for (Index j = 0; j < phi.cols; ++j) a(row, j) = phi(i, j);
      for (Index c = 0; c < y.cols; ++c) b(row, c) = y(i, c);
      ++row;
    }
    const std::vector<double> mean_a =
        intercept ? centre(a) : std::vector<double>(static_cast<std::size_t>(phi.cols));
    const std::vector<double> mean_b =
        intercept ? centre(b) : std::vector<double>(static_cast<std::size_t>(y.cols));
    Dense system = multiply(a, transposed(a));
    for (Index i = 0; i < system.rows; ++i) system(i, i) += total_penalty;
    const Dense v = multiply(transposed(a), solve(system, b));
    for (Index c = 0; c < y.cols; ++c) {
      double f = mean_b[static_cast<std::size_t>(c)];
      for (Index j = 0; j < phi.cols; ++j) f += (phi(out, j) - mean_a[static_cast<std::size_t>(j)]) * v(j, c);
      squares += std::pow(y(out, c) - f, 2);
    }
  }
  return squares / static_cast<double>(y.rows * y.cols);
}

TEST(Ridge, LeaveOneOutErrorIsExact) {
  const LabelledSets data = labelled(ragged_sets<double>(24, 4, 2, 5), 6, 2);
  for (const Solver solver : {Solver::dual, Solver::primal})
    for (const bool intercept : {true, false}) {
      FitOptions options = options_for(solver == Solver::dual ? 20 : 5, std::nullopt, solver);
      options.intercept = intercept;
      const Fit result = fit(data, options, {});
      const Dense phi = reference_features(result.model, data.sets);
      int checked = 0;
      for (const RidgeTrial& trial : result.report.trials) {
        if (trial.ridge * 24 < 1e-6)
          continue;  // below, the reference itself loses digits to the condition number
        const double want = brute_force_leave_one_out(phi, ridge_targets(data), trial.ridge * 24, intercept);
        EXPECT_NEAR(trial.error / want, 1, 1e-6) << name(solver) << " ridge " << trial.ridge;
        ++checked;
      }
      EXPECT_GT(checked, 10);
      double best = result.report.trials.front().error;
      for (const RidgeTrial& trial : result.report.trials) best = std::min(best, trial.error);
      for (const RidgeTrial& trial : result.report.trials)
        if (trial.ridge == result.report.ridge) {
          EXPECT_LE(trial.error, best * (1 + 1e-10));
        }
    }
}

TEST(Ridge, GridReachesAThousandTimesTheMeanDiagonal) {
  const LabelledSets data = labelled(ragged_sets<double>(30, 4, 2, 5), 6);
  const Fit result = fit(data, options_for(20, std::nullopt), {});
  Dense phi = reference_features(result.model, data.sets);
  centre(phi);
  EXPECT_GE(result.report.trials.front().ridge, 0.999e3 * std::pow(frobenius(phi), 2) / 30);
}

TEST(Ridge, ZeroIsTheMinimumNormInterpolant) {
  // Twice the same sets: the rows of Phi repeat, and with equal targets an interpolant still exists.
  Sets half = equal_sets<double>(12, 3, 2, 8);
  Array query(DType::f64, {24, 2}), keys(DType::f64, {24, 3, 2});
  for (Index i = 0; i < 24; ++i)
    half.copy_set(i % 12, query.data<double>() + 2 * i, keys.data<double>() + 6 * i, 2);
  LabelledSets data{Sets::from_arrays(query, keys), {{}, 1, false, {24}}};
  for (Index i = 0; i < 24; ++i) data.targets.values.push_back(std::sin(static_cast<double>(i % 12)));
  const Fit result = fit(data, options_for(30, 0.0), {});
  const Array f = predict(result.model, data.sets, {});
  for (Index i = 0; i < 24; ++i) EXPECT_NEAR(f.at(i), data.targets.values[static_cast<std::size_t>(i)], 1e-6);
  // Minimum norm: V has no part outside the span of the centred rows, i.e. V = Phi^T a for some a.
  Dense phi = reference_features(result.model, data.sets);
  centre(phi);
  const Dense v = values_of(result.model);
  Dense gram = multiply(phi, transposed(phi));
  for (Index i = 0; i < 24; ++i) gram(i, i) += 1e-9 * gram(i, i);
  const Dense projected = multiply(transposed(phi), solve(gram, multiply(phi, v)));
  EXPECT_LT(frobenius(add(v, scaled(projected, -1))), 1e-5 * frobenius(v));
}

// Bytes of the model do not depend on threads, blocks or caching.
TEST(Ridge, ModelDoesNotDependOnThreadsOrBlocks) {
  const LabelledSets data = labelled(equal_sets<double>(2200, 2, 3, 3), 4);
  for (const Index heads : {40, 700})
    for (const Precision precision : {Precision::f64, Precision::f32})
      for (const Solver solver : {Solver::automatic, Solver::iterative}) {
        FitOptions options = options_for(heads, 1e-3, solver);
        options.features.precision = precision;
        options.block_sets = 1024;
        if (solver == Solver::iterative && heads == 700) continue;  // slow, and no other code
        const Fit one = fit(data, options, {.threads = 1});
        options.block_sets = 4096;
        const Fit three = fit(data, options, {.threads = 3});
        ASSERT_EQ(one.model.values.to_doubles(), three.model.values.to_doubles()) << heads << name(precision);
        ASSERT_EQ(one.model.intercept.to_doubles(), three.model.intercept.to_doubles());
      }
}

TEST(Ridge, AutomaticRidgeDoesNotDependOnThreads) {
  const LabelledSets data = labelled(equal_sets<double>(300, 2, 3, 3), 4);
  for (const Index heads : {20, 100}) {
    const Fit one = fit(data, options_for(heads, std::nullopt), {.threads = 1});
    const Fit three = fit(data, options_for(heads, std::nullopt), {.threads = 3});
    EXPECT_EQ(one.report.ridge, three.report.ridge);
    EXPECT_EQ(one.model.values.to_doubles(), three.model.values.to_doubles());
  }
}

TEST(Ridge, LargeAutomaticRidgeDoesNotDependOnThreadsOrBlocks) {
  const LabelledSets data = labelled(equal_sets<double>(2200, 2, 3, 3), 4);
  for (const Index heads : {300, 700}) {  // p = 1200 < n, p = 2800 > n
    FitOptions options = options_for(heads, std::nullopt);
    options.block_sets = 1024;
    const Fit one = fit(data, options, {.threads = 1});
    EXPECT_THAT(one.report.method, testing::HasSubstr("single precision"));
    options.block_sets = 4096;
    const Fit three = fit(data, options, {.threads = 3});
    EXPECT_EQ(one.report.ridge, three.report.ridge);
    EXPECT_EQ(one.model.values.to_doubles(), three.model.values.to_doubles());
  }
}

// Phi V of the training sets, all but Phi itself in double: with (K + n ridge) alpha = Y it is Y - n ridge
// alpha.
template <class T>
std::vector<double> fitted_by_cholesky(const Model& model, const LabelledSets& data, double ridge) {
  const Index n = data.sets.count(), q = data.targets.outputs;
  const Execution execution;
  cpu::DesignMatrix<T> design(cpu::FeatureMap<T>::make(model.features, model.dim, 0, model.heads),
                              {data.sets, model.features}, backend::context_of(execution));
  Dense y = ridge_targets(data);
  centre(y);
  const MatrixView<double> rhs(y.values.data(), n, q);
  Matrix<double> phi(n, design.columns()), gram = Matrix<double>::zeros(n, n), alpha(n, q);
  design.for_row_blocks("", [&](Index first, MatrixView<const T> block) {
    for (Index i = 0; i < block.rows; ++i)
      for (Index j = 0; j < block.cols; ++j) phi(first + i, j) = double(block(i, j));
  });
  add_outer(phi, gram, 1);
  const double shift = double(n) * ridge;
  EXPECT_TRUE(solve_regularised(gram, shift, rhs, alpha, 1).ok());
  std::vector<double> out = data.targets.values;
  for (Index i = 0; i < n * q; ++i) out[std::size_t(i)] -= shift * alpha.data()[i];
  return out;
}

// Factored in float, solved as well as double solves.
TEST(Ridge, LargeFitsAreRefined) {
  const LabelledSets data = labelled(equal_sets<double>(1100, 2, 3, 3), 4, 2);
  for (const Index heads : {260, 400})  // p = 1040 < n, p = 1600 > n
    for (const Precision precision : {Precision::f64, Precision::f32})
      for (const std::optional<double> ridge :
           {std::optional<double>(), std::optional(1e-3), std::optional(1.0)}) {
        FitOptions options = options_for(heads, ridge);
        options.features.precision = precision;
        const bool single = precision == Precision::f32;
        const Fit found = fit(data, options, {});
        EXPECT_THAT(found.report.method,
                    testing::HasSubstr(ridge ? "Cholesky in single" : "band reduction in single"));
        EXPECT_EQ(found.report.status, FitStatus::solved);
        EXPECT_LT(found.report.residual, single ? 1e-6 : 1e-11);
        const auto want = (single ? fitted_by_cholesky<float>
                                  : fitted_by_cholesky<double>)(found.model, data, found.report.ridge);
        const auto got = predict(found.model, data.sets, {}).to_doubles();
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], single ? 1e-4 : 1e-9);
      }
}

// A penalty that is nothing beside the rounding of float is met in double.
TEST(Ridge, TinyGivenPenaltiesAreMetInDouble) {
  const LabelledSets data = labelled(equal_sets<double>(1100, 2, 1, 3), 4);
  const Fit result = fit(data, options_for(600, 1e-11), {});
  EXPECT_EQ(result.report.method, "dual Cholesky");
  EXPECT_EQ(result.report.ridge, 1e-11);
}

// Without noise the smallest penalty is the best, and float cannot tell it from nothing: then double chooses.
TEST(Ridge, ChoosesInDoubleWhatFloatCannotResolve) {
  LabelledSets data = labelled(equal_sets<double>(1100, 2, 1, 3), 4);
  FitOptions options = options_for(600, 10.0);  // the teacher: smooth, and without noise
  const std::vector<double> teacher = predict(fit(data, options, {}).model, data.sets, {}).to_doubles();
  data.targets.values = teacher;
  options.ridge.reset();
  const Fit result = fit(data, options, {});
  EXPECT_EQ(result.report.method, "dual band reduction");
  EXPECT_LT(result.report.ridge, result.report.trials.front().ridge * 1e-9);
}

TEST(Ridge, SmallestShapesWork) {
  for (const Index n : {1, 2, 3})
    for (const auto ridge :
         {std::optional<double>(), std::optional<double>(0.0), std::optional<double>(0.1)}) {
      const LabelledSets data = labelled(equal_sets<double>(n, 1, 1, 3), 4);
      for (const bool intercept : {true, false}) {
        FitOptions options = options_for(1, ridge);
        options.intercept = intercept;
        const Fit result = fit(data, options, {});
        EXPECT_EQ(result.report.status, FitStatus::solved);
        for (const double f : predict(result.model, data.sets, {}).to_doubles())
          EXPECT_TRUE(std::isfinite(f));
      }
    }
}

TEST(Ridge, ConstantTargetsAreFittedExactly) {
  LabelledSets data = labelled(equal_sets<double>(50, 2, 3, 3), 4);
  std::fill(data.targets.values.begin(), data.targets.values.end(), 0.1);
  for (const auto ridge : {std::optional<double>(), std::optional<double>(0.0), std::optional<double>(0.1)}) {
    const Fit result = fit(data, options_for(10, ridge), {});
    for (const double f : predict(result.model, data.sets, {}).to_doubles()) EXPECT_EQ(f, 0.1);
    EXPECT_FALSE(evaluate(result.model, data, {}).nmse.has_value());
  }
}

TEST(Ridge, FeaturesThatNeverVaryGiveTheMean) {
  const LabelledSets data = labelled(equal_sets<double>(20, 2, 3, 3), 4);
  FitOptions options = options_for(10, std::nullopt);
  options.features.weight_scale = 0;
  const Fit result = fit(data, options, {});
  EXPECT_EQ(result.report.status, FitStatus::solved);
  for (const double v : result.model.values.to_doubles()) EXPECT_EQ(v, 0.0);
}

}  // namespace
}  // namespace headlens
