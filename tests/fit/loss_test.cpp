#include "fit/convex/loss.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "fit/convex/intercept.hpp"
#include "headlens/error.hpp"
#include "small_convex_problem.hpp"

namespace headlens::training {
namespace {

using namespace headlens::small_convex;

constexpr double infinity = std::numeric_limits<double>::infinity();

Matrix<double> random_scores(Index n, Index q, double scale, std::uint64_t seed) {
  Stream random(seed, "scores");
  Matrix<double> out(n, q);
  for (Index i = 0; i < n * q; ++i) out.data()[i] = scale * random.normal();
  return out;
}

LossFunction smooth(const LossFunction& loss) {
  return loss.kind() == Loss::hinge ? loss.smoothed(0.7) : loss;
}

std::vector<double> random_weights(Index n) {
  Stream random(5, "weights");
  std::vector<double> out;
  for (Index i = 0; i < n; ++i) out.push_back(i % 3 == 1 ? 0 : random.uniform() + 0.1);
  return out;
}

// Central differences with h = 1e-5 of functions with derivatives of order 1: h^2 / 6 + 1e-16 / h < 1e-10.
// The random points keep farther than h from the kinks of the second derivative.
TEST(Loss, gradient_is_the_derivative_of_the_value) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(9, 3, 1);
    const LossFunction loss = smooth(problem.loss(kind, 2)).weighted(random_weights(9));
    Matrix<double> scores = random_scores(9, loss.outputs(), 1.5, 3), slope(9, loss.outputs());
    loss.gradient(scores, slope);
    for (Index e = 0; e < 9 * loss.outputs(); ++e) {
      const double at = scores.data()[e], h = 1e-5;
      scores.data()[e] = at + h;
      const double above = loss.value(scores);
      scores.data()[e] = at - h;
      const double below = loss.value(scores);
      scores.data()[e] = at;
      EXPECT_NEAR(slope.data()[e], (above - below) / (2 * h), 1e-9) << name(kind) << ", entry " << e;
    }
  }
}

TEST(Loss, curvature_is_the_derivative_of_the_gradient) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(9, 3, 1);
    const LossFunction loss = smooth(problem.loss(kind, 2)).weighted(random_weights(9));
    const Index q = loss.outputs();
    const Matrix<double> scores = random_scores(9, q, 1.5, 3), direction = random_scores(9, q, 1, 4);
    Matrix<double> above(9, q), below(9, q), product(9, q), moved(9, q);
    const double h = 1e-5;
    for (Index e = 0; e < 9 * q; ++e) moved.data()[e] = scores.data()[e] + h * direction.data()[e];
    loss.gradient(moved, above);
    for (Index e = 0; e < 9 * q; ++e) moved.data()[e] = scores.data()[e] - h * direction.data()[e];
    loss.gradient(moved, below);
    loss.curvature(scores).apply(direction, product);
    for (Index e = 0; e < 9 * q; ++e)
      EXPECT_NEAR(product.data()[e], (above.data()[e] - below.data()[e]) / (2 * h), 1e-9) << name(kind);
  }
}

TEST(Loss, curvature_sum_is_the_product_with_constant_columns) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(9, 3, 1);
    const LossFunction loss = smooth(problem.loss(kind, 2)).weighted(random_weights(9));
    const Index q = loss.outputs();
    const Curvature curvature = loss.curvature(random_scores(9, q, 1, 3));
    const Matrix<double> sum = curvature.sum();
    for (Index d = 0; d < q; ++d) {
      Matrix<double> column = Matrix<double>::zeros(9, q), image(9, q);
      for (Index i = 0; i < 9; ++i) column(i, d) = 1;
      curvature.apply(column, image);
      for (Index c = 0; c < q; ++c) {
        double expected = 0;
        for (Index i = 0; i < 9; ++i) expected += image(i, c);
        EXPECT_NEAR(sum(c, d), expected, 1e-14) << name(kind);  // 9 terms below 1
      }
    }
  }
}

TEST(Loss, curvature_never_exceeds_its_bound) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(40, 3, 1);
    const LossFunction loss = smooth(problem.loss(kind, 2));
    const Index q = loss.outputs();
    const Matrix<double> direction = random_scores(40, q, 1, 4);
    Matrix<double> product(40, q);
    loss.curvature(random_scores(40, q, 1, 3)).apply(direction, product);
    for (Index i = 0; i < 40; ++i) {
      double quadratic = 0, square = 0;
      for (Index c = 0; c < q; ++c) {
        quadratic += direction(i, c) * product(i, c);
        square += direction(i, c) * direction(i, c);
      }
      EXPECT_GE(quadratic, -1e-15 * square) << name(kind);
      EXPECT_LE(quadratic, loss.share(i) * loss.curvature_bound() * square * (1 + 1e-14)) << name(kind);
    }
  }
}

TEST(Loss, multinomial_curvature_bound_is_reached) {
  const std::vector<Index> label{0};
  const LossFunction loss = LossFunction::classification(Loss::logistic, label, 3);
  Matrix<double> scores(1, 3), direction(1, 3), product(1, 3);
  scores(0, 0) = scores(0, 1) = 0, scores(0, 2) = -100;
  direction(0, 0) = 1, direction(0, 1) = -1, direction(0, 2) = 0;
  loss.curvature(scores).apply(direction, product);
  EXPECT_DOUBLE_EQ(product(0, 0), 0.5);
}

TEST(Loss, values_by_hand) {
  Matrix<double> y(1, 1), f(1, 1);
  y(0, 0) = 1;
  f(0, 0) = 4;
  EXPECT_DOUBLE_EQ(LossFunction::regression(Loss::squared, y).value(f), 9);
  EXPECT_DOUBLE_EQ(LossFunction::regression(Loss::huber, y, 2).value(f), 2 * (3 - 1));
  EXPECT_DOUBLE_EQ(LossFunction::regression(Loss::huber, y, 3).value(f), 4.5);
  const std::vector<Index> zero{0}, one{1};
  EXPECT_DOUBLE_EQ(LossFunction::classification(Loss::logistic, one, 2).value(f), std::log1p(std::exp(-4.0)));
  EXPECT_DOUBLE_EQ(LossFunction::classification(Loss::hinge, zero, 2).value(f), 5);
  EXPECT_DOUBLE_EQ(LossFunction::classification(Loss::hinge, one, 2).value(f), 0);
}

TEST(Loss, logistic_losses_neither_overflow_nor_lose_digits) {
  const std::vector<Index> one{1};
  for (const Index classes : {Index{2}, Index{3}}) {
    const LossFunction loss = LossFunction::classification(Loss::logistic, one, classes);
    Matrix<double> f = Matrix<double>::zeros(1, loss.outputs()), slope(1, loss.outputs());
    double& own = f.data()[classes == 2 ? 0 : 1];
    own = -1e4;
    EXPECT_NEAR(loss.value(f), 1e4 + (classes == 3 ? std::log(2.0) : 0), 1e-8);
    own = 60;  // value = (classes - 1) e^-60 to first order
    EXPECT_NEAR(loss.value(f) / (static_cast<double>(classes - 1) * std::exp(-60.0)), 1, 1e-12);
    loss.gradient(f, slope);
    const double own_slope = slope.data()[classes == 2 ? 0 : 1];
    EXPECT_NEAR(own_slope / (static_cast<double>(classes - 1) * std::exp(-60.0)), -1, 1e-12);
  }
}

TEST(Loss, smoothed_hinge_brackets_the_hinge) {
  const std::vector<Index> one{1};
  const LossFunction hinge = LossFunction::classification(Loss::hinge, one, 2);
  EXPECT_EQ(hinge.curvature_bound(), infinity);
  for (const double gamma : {1.0, 0.3, 1e-3})
    for (int k = -200; k <= 300; ++k) {
      const double u = 0.01 * k;
      Matrix<double> f(1, 1);
      f(0, 0) = u;
      const double sharp = hinge.value(f), soft = hinge.smoothed(gamma).value(f);
      EXPECT_LE(soft, sharp + 1e-15);
      EXPECT_GE(soft, sharp - gamma / 2 - 1e-15);
      EXPECT_EQ(hinge.smoothed(gamma).sharp_value(f), sharp);
      EXPECT_LE(hinge.smoothed(gamma).smoothing_slack(f), gamma / 4 + 1e-15);
    }
}

// L(F') >= L(F) + <G, F' - F> - slack for the hinge L and the gradient G of the smoothed one.
TEST(Loss, smoothing_slack_makes_the_gradient_an_epsilon_subgradient) {
  const SmallProblem problem(12, 3, 1);
  const LossFunction loss = problem.loss(Case::many_hinge, 2).weighted(random_weights(12)).smoothed(0.5);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Matrix<double> from = random_scores(12, 4, 1, seed), to = random_scores(12, 4, 1, 100 + seed);
    Matrix<double> slope(12, 4);
    loss.gradient(from, slope);
    double linear = loss.sharp_value(from) - loss.smoothing_slack(from);
    for (Index e = 0; e < 48; ++e) linear += slope.data()[e] * (to.data()[e] - from.data()[e]);
    EXPECT_GE(loss.sharp_value(to), linear - 1e-13);  // 48 terms of order 1
  }
}

// For one score the bound is tight at u' = 1: 0 = (1 - u) - a (1 - u) - slack.
TEST(Loss, smoothing_slack_is_as_small_as_can_be) {
  const std::vector<Index> one{1};
  const LossFunction loss = LossFunction::classification(Loss::hinge, one, 2).smoothed(0.5);
  for (int k = 1; k < 10; ++k) {
    const double u = 0.5 + 0.05 * k;
    Matrix<double> f(1, 1), slope(1, 1);
    f(0, 0) = u;
    loss.gradient(f, slope);
    EXPECT_NEAR(loss.sharp_value(f) + slope(0, 0) * (1 - u), loss.smoothing_slack(f), 1e-15);
  }
}

TEST(Loss, rows_of_weight_zero_count_as_deleted) {
  for (const Case kind : all_cases) {
    const SmallProblem all(9, 3, 1), few(6, 3, 1);  // the first six rows of the same targets
    const LossFunction masked = smooth(all.loss(kind, 2)).weighted({1, 1, 1, 1, 1, 1, 0, 0, 0});
    const LossFunction deleted = smooth(few.loss(kind, 2));
    const Index q = masked.outputs();
    Matrix<double> scores = random_scores(9, q, 1, 3), slope(9, q), short_slope(6, q);
    const MatrixView<const double> head = scores.view().block(0, 0, 6, q);
    scores(8, 0) = infinity;  // must not even be looked at
    EXPECT_DOUBLE_EQ(masked.value(scores), deleted.value(head)) << name(kind);
    masked.gradient(scores, slope);
    deleted.gradient(head, short_slope);
    for (Index i = 0; i < 9; ++i)
      for (Index c = 0; c < q; ++c)
        EXPECT_DOUBLE_EQ(slope(i, c), i < 6 ? short_slope(i, c) : 0) << name(kind);
  }
}

TEST(Loss, misuse_is_refused) {
  const std::vector<Index> labels{0, 1, 2};
  Matrix<double> y = Matrix<double>::zeros(3, 1);
  EXPECT_THROW((void)LossFunction::classification(Loss::logistic, labels, 2), Error);
  EXPECT_THROW((void)LossFunction::classification(Loss::squared, labels, 3), Error);
  EXPECT_THROW((void)LossFunction::regression(Loss::hinge, y), Error);
  EXPECT_THROW((void)LossFunction::regression(Loss::huber, y, 0), Error);
  EXPECT_THROW((void)LossFunction::regression(Loss::squared, y).weighted({1, 1}), Error);
  EXPECT_THROW((void)LossFunction::regression(Loss::squared, y).weighted({0, 0, 0}), Error);
  EXPECT_THROW((void)LossFunction::regression(Loss::squared, y).weighted({1, -1, 1}), Error);
  y(1, 0) = infinity;
  EXPECT_THROW((void)LossFunction::regression(Loss::squared, y), Error);
}

double intercept_slope(const LossFunction& loss, const Matrix<double>& scores, const std::vector<double>& b) {
  Matrix<double> shifted(scores.rows(), scores.cols()), slope(scores.rows(), scores.cols());
  add_intercept(scores, b, shifted);
  loss.gradient(shifted, slope);
  double worst = 0;
  for (Index c = 0; c < slope.cols(); ++c) {
    double sum = 0;
    for (Index i = 0; i < slope.rows(); ++i) sum += slope(i, c);
    worst = std::max(worst, std::abs(sum));
  }
  return worst;
}

// The slope must vanish to the rounding of 30 terms of size <= max |L'| / 30, and where the second derivative
// jumps by 1 / gamma, to the rounding of b times that.
TEST(Intercept, is_a_stationary_point) {
  for (const Case kind : all_cases)
    for (const double scale : {0.0, 1.0, 30.0}) {
      const SmallProblem problem(30, 3, 1);
      const LossFunction loss = smooth(problem.loss(kind, 2)).weighted(random_weights(30));
      const Index q = loss.outputs();
      const Matrix<double> scores = random_scores(30, q, scale, 3);
      for (const double start : {0.0, 1e3}) {
        const std::vector<double> from(static_cast<std::size_t>(q), start);
        const Intercept best = minimise_intercept(loss, scores, from);
        EXPECT_FALSE(best.capped);
        EXPECT_LE(intercept_slope(loss, scores, best.values), 1e-13 * (1 + scale))
            << name(kind) << " " << scale;
      }
    }
}

TEST(Intercept, of_the_squared_loss_is_the_weighted_mean) {
  const SmallProblem problem(30, 3, 1);
  const std::vector<double> weights = random_weights(30);
  const LossFunction loss = problem.loss(Case::squared, 2).weighted(weights);
  const Intercept best = minimise_intercept(loss, Matrix<double>::zeros(30, 2), {0, 0});
  for (Index c = 0; c < 2; ++c) {
    double mean = 0;
    for (Index i = 0; i < 30; ++i) mean += loss.share(i) * loss.target(i, c);
    EXPECT_NEAR(best.values[static_cast<std::size_t>(c)], mean, 1e-14 * 30);
  }
}

TEST(Intercept, stays_finite_when_a_class_is_absent) {
  const std::vector<Index> ones(5, 1);
  for (const Index classes : {Index{2}, Index{4}}) {
    const LossFunction loss = LossFunction::classification(Loss::logistic, ones, classes);
    const std::vector<double> zero(static_cast<std::size_t>(loss.outputs()), 0.0);
    const Matrix<double> scores = random_scores(5, loss.outputs(), 1, 3);
    const Intercept best = minimise_intercept(loss, scores, zero);
    EXPECT_TRUE(best.capped);
    for (const double b : best.values) EXPECT_LT(std::abs(b), 40);  // 30 + spread of the scores
    Matrix<double> shifted(5, loss.outputs());
    add_intercept(scores, best.values, shifted);
    EXPECT_LT(loss.value(shifted), 1e-11);
  }
}

// The mean probability of the absent class is its clamped share, e^-30: the cancellation in share - clamped
// share leaves 1e-16 / e^-30 = 0.1%.
TEST(Intercept, gives_an_absent_class_its_clamped_share) {
  const std::vector<Index> ones(5, 1);
  const LossFunction loss = LossFunction::classification(Loss::logistic, ones, 2);
  const Matrix<double> scores = random_scores(5, 1, 1, 3);
  const double b = minimise_intercept(loss, scores, {0}).values[0];
  double share = 0;
  for (Index i = 0; i < 5; ++i) share += 1 / (1 + std::exp(scores(i, 0) + b)) / 5;
  EXPECT_NEAR(share, std::exp(-30.0), 2e-3 * std::exp(-30.0));
}

TEST(Intercept, keeps_an_optimal_start_where_the_optimum_is_flat) {
  const std::vector<Index> labels{0, 1};
  const LossFunction loss = LossFunction::classification(Loss::hinge, labels, 2).smoothed(0.1);
  Matrix<double> scores(2, 1);
  scores(0, 0) = -5, scores(1, 0) = 5;
  EXPECT_EQ(minimise_intercept(loss, scores, {0.25}).values[0], 0.25);
}

}  // namespace
}  // namespace headlens::training
