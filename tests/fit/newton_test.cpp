#include "fit/convex/newton.hpp"

#include <gtest/gtest.h>

#include "fit/convex/hinge_path.hpp"
#include "headlens/error.hpp"
#include "small_convex_problem.hpp"

namespace headlens::training {
namespace {

using namespace headlens::small_convex;

constexpr double ridge = 0.05;

NewtonOptions options_for(WithIntercept intercept, double penalty = ridge) {
  NewtonOptions out;
  out.ridge = penalty;
  out.intercept = intercept == WithIntercept::yes;
  return out;
}

double scale_of(const NewtonSolution& found) { return std::max(found.objective, 1e-300); }

// Gradient descent needs L / (2 ridge) times ln(1 / accuracy) steps: L <= 2 (|Phi|_F^2 / n + 1) = 18 here, so
// 40000 steps leave e^-200.
double reference(const SmallProblem& problem, const LossFunction& loss, WithIntercept intercept) {
  if (loss.kind() == Loss::hinge) return hinge_dual_optimum(problem, loss, ridge, intercept, 4000);
  const PrimalPoint best = descend(problem, loss, ridge, intercept, 40000, [](std::vector<double>&) {});
  return objective(problem, loss, ridge, best);
}

class NewtonOnEveryLoss : public ::testing::TestWithParam<std::tuple<Case, WithIntercept, Index>> {};

// Objective against the slow optimum, which may itself be off by rounding (1e-12) or, for the hinge, by what
// 4000 sweeps leave (1e-9).
TEST_P(NewtonOnEveryLoss, reaches_the_optimum_and_certifies_it) {
  const auto [kind, intercept, n] = GetParam();
  const SmallProblem problem(n, 8, 7);
  const LossFunction loss = problem.loss(kind, 8);
  const double optimum = reference(problem, loss, intercept);
  for (const double tolerance : {1e-1, 1e-3, loss.kind() == Loss::hinge ? 1e-6 : 1e-8}) {
    NewtonOptions options = options_for(intercept);
    options.tolerance = tolerance;
    const NewtonSolution found = minimise_newton(loss, problem.kernel(), options, {});
    EXPECT_EQ(found.status, FitStatus::solved);
    EXPECT_LE(found.gap, tolerance);
    const double noise = loss.kind() == Loss::hinge ? 1e-9 : 1e-12;
    EXPECT_LE(found.objective - optimum, found.gap * scale_of(found) + noise) << "at tolerance " << tolerance;
    EXPECT_GE(found.objective - optimum, -noise);
  }
}

std::string case_label(const ::testing::TestParamInfo<std::tuple<Case, WithIntercept, Index>>& info) {
  std::string out = name(std::get<0>(info.param));
  std::replace(out.begin(), out.end(), ' ', '_');
  return out + (std::get<1>(info.param) == WithIntercept::yes ? "_with" : "_without") + "_intercept_" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Losses, NewtonOnEveryLoss,
                         ::testing::Combine(::testing::ValuesIn(all_cases),
                                            ::testing::Values(WithIntercept::no, WithIntercept::yes),
                                            ::testing::Values(Index{5}, Index{30})),
                         case_label);

void expect_stationary(const SmallProblem& problem, const LossFunction& loss, const NewtonSolution& found,
                       double penalty, WithIntercept intercept, double tolerance) {
  const Index n = problem.n, q = loss.outputs();
  Matrix<double> slope(n, q), image(problem.p, q);
  loss.gradient(found.scores, slope);
  for (Index c = 0; c < q; ++c) {
    double sum = 0;
    for (Index i = 0; i < n; ++i) sum += slope(i, c);
    EXPECT_NEAR(intercept == WithIntercept::yes ? sum : 0, 0, tolerance);
  }
  for (Index e = 0; e < n * q; ++e) slope.data()[e] += 2 * penalty * found.point.dual.data()[e];
  problem.adjoint()(slope, image);
  for (Index e = 0; e < problem.p * q; ++e) EXPECT_NEAR(image.data()[e], 0, tolerance);
}

// |Phi^T g|^2 <= 4 ridge gap objective: at gap 1e-12 and objective, ridge below 1 the gradient is below 2e-6.
TEST(Newton, survives_tiny_and_degenerate_problems) {
  for (const Case kind : smooth_cases)
    for (const WithIntercept intercept : {WithIntercept::no, WithIntercept::yes})
      for (const Index n : {Index{2}, Index{30}}) {
        SmallProblem problem(n, 6, 3);
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < 6; ++j) {
            if (i >= n / 2)
              problem.features(i, j) = problem.features(i - n / 2, j);        // twins with other targets
            if (j >= 3) problem.features(i, j) = problem.features(i, j - 3);  // K has rank 3
          }
        const LossFunction loss = problem.loss(kind, 4);
        NewtonOptions options = options_for(intercept, 1e-3);
        options.tolerance = 1e-12;
        const NewtonSolution found = minimise_newton(loss, problem.kernel(), options, {});
        EXPECT_EQ(found.status, FitStatus::solved) << name(kind) << " " << n;
        expect_stationary(problem, loss, found, options.ridge, intercept, 1e-5);
      }
}

TEST(Newton, one_example) {
  for (const Case kind : all_cases)
    for (const WithIntercept intercept : {WithIntercept::no, WithIntercept::yes}) {
      const SmallProblem problem(1, 3, 3);
      const LossFunction loss = problem.loss(kind, 4);
      const NewtonSolution found = minimise_newton(loss, problem.kernel(), options_for(intercept), {});
      EXPECT_EQ(found.status, FitStatus::solved) << name(kind);
      // With an intercept one example is fitted exactly (up to the cap) at V = 0.
      EXPECT_NEAR(intercept == WithIntercept::yes ? found.objective : 0, 0, 1e-11) << name(kind);
      const bool logistic = loss.kind() == Loss::logistic;
      EXPECT_EQ(found.intercept_capped, logistic && intercept == WithIntercept::yes);
      for (const double b : found.point.intercept) EXPECT_TRUE(std::isfinite(b));
    }
}

TEST(Newton, features_that_are_all_zero_leave_the_intercept) {
  for (const Case kind : all_cases) {
    SmallProblem problem(12, 3, 3);
    const LossFunction loss = problem.loss(kind, 4);
    std::fill_n(problem.features.data(), 36, 0.0);
    const NewtonSolution found = minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes), {});
    EXPECT_EQ(found.status, FitStatus::solved) << name(kind);
    EXPECT_TRUE(std::isfinite(found.objective));
  }
}

TEST(Newton, extreme_penalties_give_finite_numbers) {
  for (const Case kind : all_cases)
    for (const double penalty : {1e-9, 1e12}) {
      const SmallProblem problem(30, 8, 7);
      const LossFunction loss = problem.loss(kind, 8);
      const NewtonSolution found =
          minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes, penalty), {});
      EXPECT_TRUE(std::isfinite(found.objective) && std::isfinite(found.gap)) << name(kind);
      for (Index e = 0; e < found.scores.rows() * found.scores.cols(); ++e)
        EXPECT_TRUE(std::isfinite(found.scores.data()[e])) << name(kind);
      EXPECT_TRUE(penalty < 1 || found.status == FitStatus::solved) << name(kind);
      EXPECT_LE(found.gap, 1e-3) << name(kind) << " " << penalty;
    }
}

// Constant targets: everything is rounding, and must not be mistaken for a hard problem.
TEST(Newton, constant_targets_are_fitted_by_the_intercept) {
  const SmallProblem problem(30, 8, 7);
  Matrix<double> y(30, 1);
  std::fill_n(y.data(), 30, 0.1);
  for (const Loss kind : {Loss::squared, Loss::huber}) {
    const NewtonSolution found = minimise_newton(LossFunction::regression(kind, y), problem.kernel(),
                                                 options_for(WithIntercept::yes, 1e-6), {});
    EXPECT_EQ(found.status, FitStatus::solved);
    EXPECT_NEAR(found.point.intercept[0], 0.1, 1e-15);
  }
}

TEST(Newton, a_fold_without_one_class_is_solved_and_says_so) {
  const SmallProblem problem(30, 8, 7);
  for (const Case kind : {Case::binary_logistic, Case::multinomial, Case::binary_hinge, Case::many_hinge}) {
    const LossFunction all = problem.loss(kind, 8);
    std::vector<double> keep;
    for (Index i = 0; i < 30; ++i) keep.push_back(all.target(i, 0) > 0 ? 0 : 1);
    const NewtonSolution found =
        minimise_newton(all.weighted(keep), problem.kernel(), options_for(WithIntercept::yes), {});
    EXPECT_EQ(found.status, FitStatus::solved) << name(kind);
    EXPECT_EQ(found.intercept_capped, all.kind() == Loss::logistic);
    for (const double b : found.point.intercept) EXPECT_LT(std::abs(b), 50);
  }
}

TEST(Newton, masked_rows_count_as_deleted_and_are_predicted) {
  for (const Case kind : all_cases) {
    const SmallProblem all(40, 8, 7), few(30, 8, 7);  // the first 30 rows of the same features
    std::vector<double> weights(40, 2.0);
    std::fill(weights.begin() + 30, weights.end(), 0.0);
    NewtonOptions options = options_for(WithIntercept::yes);
    options.tolerance = 1e-10;
    const NewtonSolution masked =
        minimise_newton(all.loss(kind, 8).weighted(weights), all.kernel(), options, {});
    const NewtonSolution deleted = minimise_newton(few.loss(kind, 8), few.kernel(), options, {});
    // ridge |V - V'|^2 <= gap objective for both, so scores differ by |phi| sqrt(4e-10 / ridge) < 1e-3.
    EXPECT_NEAR(masked.objective, deleted.objective, 2e-10 * deleted.objective) << name(kind);
    for (Index i = 0; i < 30; ++i) EXPECT_NEAR(masked.scores(i, 0), deleted.scores(i, 0), 1e-3) << name(kind);
    for (Index i = 30; i < 40; ++i) {
      EXPECT_EQ(masked.point.dual(i, 0), 0);
      EXPECT_TRUE(std::isfinite(masked.scores(i, 0)) && masked.scores(i, 0) != 0);
    }
  }
}

TEST(Newton, scores_are_the_kernel_times_the_dual_plus_the_intercept) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(30, 8, 7);
    const LossFunction loss = problem.loss(kind, 8);
    const NewtonSolution found = minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes), {});
    Matrix<double> image(30, loss.outputs());
    problem.kernel()(found.point.dual, image);
    for (Index i = 0; i < 30; ++i)
      for (Index c = 0; c < loss.outputs(); ++c)
        EXPECT_DOUBLE_EQ(found.scores(i, c),
                         image(i, c) + found.point.intercept[static_cast<std::size_t>(c)]);
    EXPECT_NEAR(found.loss, loss.value(found.scores), 1e-14 * found.objective);
  }
}

TEST(Newton, a_warm_start_at_the_optimum_needs_no_step) {
  for (const Case kind : smooth_cases) {
    const SmallProblem problem(30, 8, 7);
    const LossFunction loss = problem.loss(kind, 8);
    NewtonOptions options = options_for(WithIntercept::yes);
    options.tolerance = 1e-10;
    const NewtonSolution cold = minimise_newton(loss, problem.kernel(), options, {});
    options.tolerance = 1e-8;
    const NewtonSolution warm = minimise_newton(loss, problem.kernel(), options, {}, &cold.point);
    EXPECT_EQ(warm.iterations, 0) << name(kind);
    EXPECT_EQ(warm.operator_applications, 2) << name(kind);  // K A and K g
  }
}

TEST(Newton, without_intercept_a_start_cannot_smuggle_one_in) {
  const SmallProblem problem(30, 8, 7);
  const DualPoint start{Matrix<double>::zeros(30, 2), {3, 3}};
  const NewtonSolution found = minimise_newton(problem.loss(Case::huber, 8), problem.kernel(),
                                               options_for(WithIntercept::no), {}, &start);
  EXPECT_EQ(found.point.intercept, (std::vector<double>{0, 0}));
}

TEST(Newton, repeats_itself_bit_by_bit) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(30, 8, 7);
    const LossFunction loss = problem.loss(kind, 8);
    const NewtonSolution a = minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes), {});
    const NewtonSolution b = minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes), {});
    for (Index e = 0; e < a.scores.rows() * a.scores.cols(); ++e)
      EXPECT_EQ(a.scores.data()[e], b.scores.data()[e]);
  }
}

// Features in float: K is symmetric only to 1e-7. The certificate must stay finite and the fit useful.
TEST(Newton, tolerates_a_kernel_applied_in_single_precision) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(30, 8, 7);
    const LossFunction loss = problem.loss(kind, 8);
    const BlockOperator exact = problem.kernel();
    const BlockOperator rough = [&](MatrixView<const double> in, MatrixView<double> out) {
      exact(in, out);
      for (Index i = 0; i < out.rows; ++i)
        for (Index c = 0; c < out.cols; ++c) out(i, c) = static_cast<float>(out(i, c));
    };
    const NewtonSolution fine = minimise_newton(loss, exact, options_for(WithIntercept::yes), {});
    const NewtonSolution found = minimise_newton(loss, rough, options_for(WithIntercept::yes), {});
    EXPECT_NEAR(found.objective, fine.objective, 1e-5 * fine.objective) << name(kind);
  }
}

TEST(Newton, reports_progress_and_stops_when_told) {
  for (const Case kind : {Case::binary_logistic, Case::binary_hinge}) {
    const SmallProblem problem(30, 8, 7);
    int asked = 0, reports = 0;
    Execution execution;
    execution.cancelled = [&] { return ++asked == 5; };
    execution.progress = [&](const Progress& progress) {
      ++reports;
      EXPECT_LE(progress.done, progress.total);
    };
    try {
      (void)minimise_newton(problem.loss(kind, 8), problem.kernel(), options_for(WithIntercept::yes),
                            execution);
      FAIL() << "not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::interrupted);
    }
    EXPECT_GT(reports, 0);
  }
}

TEST(Newton, an_iteration_cap_ends_as_stalled_with_an_honest_gap) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(30, 8, 7);
    const LossFunction loss = problem.loss(kind, 8);
    NewtonOptions options = options_for(WithIntercept::yes);
    options.max_iterations = 1;
    options.tolerance = 1e-14;
    const NewtonSolution found = minimise_newton(loss, problem.kernel(), options, {});
    EXPECT_EQ(found.status, FitStatus::stalled) << name(kind);
    const double optimum = reference(problem, loss, WithIntercept::yes);
    EXPECT_LE(found.objective - optimum, found.gap * scale_of(found) + 1e-9) << name(kind);
  }
}

TEST(Newton, misuse_is_refused) {
  const SmallProblem problem(5, 2, 1);
  const LossFunction loss = problem.loss(Case::huber, 1);
  EXPECT_THROW((void)minimise_newton(loss, problem.kernel(), options_for(WithIntercept::yes, 0), {}), Error);
  const BlockOperator broken = [](MatrixView<const double>, MatrixView<double> out) {
    for (Index i = 0; i < out.rows; ++i)
      for (Index c = 0; c < out.cols; ++c) out(i, c) = std::nan("");
  };
  for (const Case kind : all_cases)
    EXPECT_THROW((void)minimise_newton(problem.loss(kind, 1), broken, options_for(WithIntercept::yes), {}),
                 Error);
}

}  // namespace
}  // namespace headlens::training
