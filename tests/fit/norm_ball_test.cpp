#include "fit/convex/norm_ball.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "fit/convex/ball_geometry.hpp"
#include "fit/convex/newton.hpp"
#include "headlens/error.hpp"
#include "small_convex_problem.hpp"

namespace headlens::training {
namespace {

using namespace headlens::small_convex;

constexpr double unbounded = std::numeric_limits<double>::infinity();

double sum(const std::vector<double>& r) {
  double out = 0;
  for (const double x : r) out += x;
  return out;
}
double squares(const std::vector<double>& r) {
  double out = 0;
  for (const double x : r) out += x * x;
  return out;
}

std::vector<double> random_norms(std::size_t count, std::uint64_t seed) {
  Stream random(seed, "norms");
  std::vector<double> out;
  for (std::size_t m = 0; m < count; ++m) out.push_back(std::abs(random.normal()));
  return out;
}

// Dykstra's alternating projections onto { r >= 0, sum r <= k1 } and { |r|^2 <= k2 }, the first by plain
// bisection.
std::vector<double> slow_projection(const NormBall& ball, const std::vector<double>& norms) {
  std::vector<double> x = norms, p(norms.size(), 0.0), q(norms.size(), 0.0);
  for (int round = 0; round < 3000; ++round) {
    std::vector<double> y(x);
    for (std::size_t m = 0; m < x.size(); ++m) y[m] += p[m];
    double low = 0, high = 1e3;
    const auto excess = [&](double t) {
      double out = -ball.k1;
      for (const double z : y) out += std::max(0.0, z - t);
      return out;
    };
    for (int k = 0; k < 100; ++k) (excess((low + high) / 2) > 0 ? low : high) = (low + high) / 2;
    const double threshold = excess(0) > 0 ? high : 0;
    std::vector<double> z(y);
    for (std::size_t m = 0; m < x.size(); ++m) {
      z[m] = std::max(0.0, y[m] - threshold);
      p[m] = y[m] - z[m];
    }
    std::vector<double> w(z);
    for (std::size_t m = 0; m < x.size(); ++m) w[m] += q[m];
    const double factor = std::min(1.0, std::sqrt(ball.k2 / std::max(squares(w), 1e-300)));
    for (std::size_t m = 0; m < x.size(); ++m) {
      x[m] = factor * w[m];
      q[m] = w[m] - x[m];
    }
  }
  return x;
}

struct BallCase {
  NormBall ball;
  const char* active;
};
// Six norms of order 1 have sum about 5 and sum of squares about 6.
const std::vector<BallCase> ball_cases = {
    {{100, 100}, "neither"},        {{1, 100}, "k1"}, {{100, 1}, "k2"}, {{1.3, 1}, "both"},
    {{1.01, 1}, "both, one group"}, {{2, 1}, "both"}, {{0.3, 5}, "k1"}, {{unbounded, 0.5}, "k2"},
    {{1.5, unbounded}, "k1"}};

// Dykstra converges linearly here; 3000 rounds leave less than 1e-8.
TEST(NormBallGeometry, projection_agrees_with_alternating_projections) {
  for (const BallCase& c : ball_cases)
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const std::vector<double> norms = random_norms(6, seed);
      const std::vector<double> fast = project_norms(c.ball, norms), slow = slow_projection(c.ball, norms);
      for (std::size_t m = 0; m < norms.size(); ++m)
        EXPECT_NEAR(fast[m], slow[m], 1e-8) << c.active << " " << seed;
    }
}

TEST(NormBallGeometry, projections_lie_in_the_ball) {
  for (const BallCase& c : ball_cases)
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      std::vector<double> norms = random_norms(40, seed);
      for (double& z : norms) z *= std::pow(10.0, static_cast<double>(seed % 7) - 3);
      if (seed % 5 == 0) norms.assign(40, 1.0);  // ties
      if (seed % 11 == 0) norms[0] = 1e8;        // one group far ahead
      const std::vector<double> r = project_norms(c.ball, norms);
      EXPECT_LE(sum(r), c.ball.k1 * (1 + 1e-14)) << c.active;  // 40 roundings
      EXPECT_LE(squares(r), c.ball.k2 * (1 + 1e-14)) << c.active;
    }
}

// A projection is known by <z - r, s - r> <= 0 for every s in the ball: the maximum over s is the support
// function.
TEST(NormBallGeometry, projection_and_support_satisfy_the_variational_inequality) {
  for (const BallCase& c : ball_cases)
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<double> z = random_norms(20, seed), r = project_norms(c.ball, z);
      std::vector<double> rest(z.size());
      double at_projection = 0;
      for (std::size_t m = 0; m < z.size(); ++m) {
        rest[m] = z[m] - r[m];
        at_projection += rest[m] * r[m];
      }
      EXPECT_NEAR(support_of_norms(c.ball, rest), at_projection, 1e-12 * 20) << c.active << " " << seed;
    }
}

TEST(NormBallGeometry, support_function_agrees_with_brute_force) {
  for (const BallCase& c : ball_cases) {
    const std::vector<double> g = {0.9, 0.35, 0.1};
    double best = 0;
    const int steps = 300;  // the points of a sphere's octant, each pushed out to the boundary
    for (int a = 0; a <= steps; ++a)
      for (int b = 0; b <= steps; ++b) {
        const double u = 0.5 * M_PI * a / steps, v = 0.5 * M_PI * b / steps;
        const double r[] = {std::cos(u), std::sin(u) * std::cos(v), std::sin(u) * std::sin(v)};
        const double t = std::min(c.ball.k1 / (r[0] + r[1] + r[2]), std::sqrt(c.ball.k2));
        best = std::max(best, t * (g[0] * r[0] + g[1] * r[1] + g[2] * r[2]));
      }
    const double support = support_of_norms(c.ball, g);
    EXPECT_GE(support, best * (1 - 1e-14)) << c.active;
    // On the sphere the grid misses the maximum by its spacing squared; at a corner with the plane, by its
    // spacing.
    EXPECT_NEAR(support, best, 0.5 * M_PI / steps * best) << c.active;
  }
}

TEST(NormBallGeometry, rows_are_scaled_by_group_and_padding_is_cleared) {
  const Groups groups({1, -1, 0, 1});
  Matrix<double> v(4, 2);
  for (Index i = 0; i < 8; ++i) v.data()[i] = static_cast<double>(i + 1);
  const std::vector<double> norms = groups.norms(v);
  EXPECT_DOUBLE_EQ(norms[0], std::sqrt(25 + 36.0));
  EXPECT_DOUBLE_EQ(norms[1], std::sqrt(1 + 4 + 49 + 64.0));
  groups.project({3, 100}, v);
  EXPECT_EQ(v(1, 0), 0);
  EXPECT_EQ(v(1, 1), 0);
  EXPECT_NEAR(v(3, 1) / v(0, 0), 8, 1e-14);
  EXPECT_NEAR(sum(groups.norms(v)), 3, 1e-14);
}

TEST(NormBallGeometry, zero_stays_zero) {
  const std::vector<double> zero(4, 0.0);
  for (const BallCase& c : ball_cases) {
    EXPECT_EQ(project_norms(c.ball, zero), zero);
    EXPECT_EQ(support_of_norms(c.ball, zero), 0);
  }
}

// 6 features in 3 groups and one row of padding.
const std::vector<Index> groups_of_rows = {0, 0, 1, 1, 2, 2, -1};
constexpr Index rows = 7;

GroupedDesign design_of(const SmallProblem& problem) {
  return {problem.forward(), problem.adjoint(), groups_of_rows};
}

NormBallOptions ball_options(const NormBall& ball, double ridge, double tolerance) {
  NormBallOptions out;
  out.ball = ball;
  out.ridge = ridge;
  out.tolerance = tolerance;
  return out;
}

double sharp_objective(const SmallProblem& problem, const LossFunction& loss, double ridge,
                       const PrimalPoint& at) {
  return objective(problem, loss.kind() == Loss::hinge ? loss.smoothed(0) : loss, ridge, at);
}

// Plain projected gradient descent. The hinge is smoothed there: the result is still a feasible point, hence
// an upper bound on the optimum, at most gamma / 2 a score away from it.
PrimalPoint slow_optimum(const SmallProblem& problem, const LossFunction& loss, const NormBall& ball,
                         double ridge) {
  const Groups groups(groups_of_rows);
  const LossFunction smooth = loss.kind() == Loss::hinge ? loss.smoothed(1e-2) : loss;
  const Index q = loss.outputs();
  return descend(problem, smooth, ridge, WithIntercept::yes, loss.kind() == Loss::hinge ? 20000 : 3000,
                 [&](std::vector<double>& v) {
                   groups.project(ball, {v.data(), rows, q});
                 });
}

const std::vector<NormBall> balls = {{0.5, 100}, {100, 0.2}, {0.6, 0.2}, {unbounded, 0.1}};

// The reference is off by less than 1e-7: 3000 steps at L / curvature of at most a few hundred.
TEST(NormBallSolver, gap_bounds_the_distance_to_the_optimum) {
  for (const Case kind : all_cases)
    for (const NormBall& ball : balls)
      for (const double ridge : {0.0, 0.01}) {
        const SmallProblem problem(20, rows, 11);
        const LossFunction loss = problem.loss(kind, 12);
        const PrimalPoint slow = slow_optimum(problem, loss, ball, ridge);
        const double optimum = sharp_objective(problem, loss, ridge, slow);
        for (const double tolerance : {1e-1, 1e-4}) {
          const NormBallSolution found =
              minimise_over_ball(loss, design_of(problem), ball_options(ball, ridge, tolerance), {});
          EXPECT_EQ(found.status, FitStatus::solved) << name(kind) << " " << ball.k1 << " " << ball.k2;
          EXPECT_LE(found.gap, tolerance);
          EXPECT_LE(found.objective - optimum, found.gap * found.objective + 1e-7) << name(kind);
          const double miss = loss.kind() == Loss::hinge ? 1e-2 * static_cast<double>(loss.outputs()) : 1e-7;
          EXPECT_GE(found.objective - optimum, -miss) << name(kind) << " " << ball.k1 << " " << ball.k2;
        }
      }
}

TEST(NormBallSolver, result_lies_in_the_ball_and_padding_stays_zero) {
  for (const Case kind : all_cases)
    for (const NormBall& ball : balls) {
      const SmallProblem problem(20, rows, 11);
      const NormBallSolution found =
          minimise_over_ball(problem.loss(kind, 12), design_of(problem), ball_options(ball, 0, 1e-4), {});
      const std::vector<double> norms = Groups(groups_of_rows).norms(found.values);
      EXPECT_LE(sum(norms), ball.k1 * (1 + 1e-14));
      EXPECT_LE(squares(norms), ball.k2 * (1 + 1e-14));
      // Balls this small bind: the optimum lies on the boundary.
      EXPECT_TRUE(sum(norms) > 0.99 * ball.k1 || squares(norms) > 0.99 * ball.k2) << name(kind);
      for (Index c = 0; c < found.values.cols(); ++c) EXPECT_EQ(found.values(rows - 1, c), 0);
    }
}

TEST(NormBallSolver, scores_belong_to_the_values) {
  const SmallProblem problem(20, rows, 11);
  const LossFunction loss = problem.loss(Case::multinomial, 12);
  const NormBallSolution found =
      minimise_over_ball(loss, design_of(problem), ball_options(balls[2], 0, 1e-4), {});
  PrimalPoint at{std::vector<double>(found.values.data(), found.values.data() + rows * 4), found.intercept};
  const Matrix<double> scores = scores_of(problem, at, 4);
  for (Index e = 0; e < 20 * 4; ++e) EXPECT_DOUBLE_EQ(found.scores.data()[e], scores.data()[e]);
  EXPECT_NEAR(found.objective, loss.value(scores), 1e-14);
}

// Both are certified to the tolerance or better, so they agree to twice that.
TEST(NormBallSolver, a_huge_ball_leaves_the_penalised_problem) {
  for (const Case kind : all_cases) {
    SmallProblem problem(30, rows, 13);
    for (Index i = 0; i < 30; ++i) problem.features(i, rows - 1) = 0;  // what padding means for Newton
    const LossFunction loss = problem.loss(kind, 12);
    const double tolerance = loss.kind() == Loss::hinge ? 1e-4 : 1e-8;
    NewtonOptions options;
    options.ridge = 0.02;
    const NewtonSolution newton = minimise_newton(loss, problem.kernel(), options, {});
    const NormBallSolution ball =
        minimise_over_ball(loss, design_of(problem), ball_options({1e6, 1e6}, options.ridge, tolerance), {});
    EXPECT_EQ(ball.status, FitStatus::solved) << name(kind);
    EXPECT_NEAR(ball.objective, newton.objective, 2 * tolerance * newton.objective) << name(kind);
  }
}

TEST(NormBallSolver, a_huge_ball_without_penalty_gives_least_squares) {
  SmallProblem problem(30, rows, 13);
  for (Index i = 0; i < 30; ++i) problem.features(i, rows - 1) = 0;
  const LossFunction loss = problem.loss(Case::squared, 12);
  // The squared condition number of [Phi 1] is below 100, and L overestimates by at most 7: 20000 steps leave
  // e^-28.
  const PrimalPoint slow = descend(problem, loss, 0, WithIntercept::yes, 20000, [](std::vector<double>&) {});
  const NormBallSolution found =
      minimise_over_ball(loss, design_of(problem), ball_options({100, 1000}, 0, 1e-8), {});
  EXPECT_EQ(found.status, FitStatus::solved);
  EXPECT_NEAR(found.objective, objective(problem, loss, 0, slow), 1e-8 * found.objective);
}

TEST(NormBallSolver, without_intercept_it_stays_zero) {
  const SmallProblem problem(20, rows, 11);
  NormBallOptions options = ball_options(balls[0], 0, 1e-4);
  options.intercept = false;
  const NormBallSolution found =
      minimise_over_ball(problem.loss(Case::huber, 12), design_of(problem), options, {});
  EXPECT_EQ(found.status, FitStatus::solved);
  EXPECT_EQ(found.intercept, (std::vector<double>{0, 0}));
}

TEST(NormBallSolver, one_example_and_one_class_are_solved) {
  for (const Case kind : all_cases) {
    const SmallProblem problem(1, rows, 11);
    const NormBallSolution found =
        minimise_over_ball(problem.loss(kind, 12), design_of(problem), ball_options({1, 1}, 0, 1e-4), {});
    EXPECT_EQ(found.status, FitStatus::solved) << name(kind);
    EXPECT_NEAR(found.objective, 0, 1e-11);  // the intercept fits it, up to the cap
  }
}

TEST(NormBallSolver, an_iteration_cap_ends_as_stalled_and_inside_the_ball) {
  const SmallProblem problem(20, rows, 11);
  NormBallOptions options = ball_options({0.5, 0.2}, 0, 1e-12);
  options.max_iterations = 2;
  const NormBallSolution found =
      minimise_over_ball(problem.loss(Case::huber, 12), design_of(problem), options, {});
  EXPECT_EQ(found.status, FitStatus::stalled);
  EXPECT_EQ(found.iterations, 2);
  EXPECT_LE(sum(Groups(groups_of_rows).norms(found.values)), 0.5 * (1 + 1e-14));
}

TEST(NormBallSolver, misuse_is_refused_and_cancelling_works) {
  const SmallProblem problem(20, rows, 11);
  const LossFunction loss = problem.loss(Case::huber, 12);
  const GroupedDesign design = design_of(problem);
  EXPECT_THROW((void)minimise_over_ball(loss, design, ball_options({0, 1}, 0, 1e-4), {}), Error);
  EXPECT_THROW((void)minimise_over_ball(loss, design, ball_options({unbounded, unbounded}, 0, 1e-4), {}),
               Error);
  EXPECT_THROW((void)minimise_over_ball(loss, design, ball_options({1, 1}, -1, 1e-4), {}), Error);
  const BlockOperator broken = [](MatrixView<const double>, MatrixView<double> out) {
    for (Index i = 0; i < out.rows; ++i)
      for (Index c = 0; c < out.cols; ++c) out(i, c) = std::nan("");
  };
  EXPECT_THROW((void)minimise_over_ball(loss, {design.forward, broken, groups_of_rows},
                                        ball_options({1, 1}, 0, 1e-4), {}),
               Error);
  EXPECT_THROW((void)minimise_over_ball(loss, {broken, design.adjoint, groups_of_rows},
                                        ball_options({1, 1}, 0, 1e-4), {}),
               Error);
  Execution execution;
  int asked = 0;
  execution.cancelled = [&] { return ++asked == 5; };
  EXPECT_THROW((void)minimise_over_ball(loss, design, ball_options({0.5, 0.2}, 0, 1e-10), execution), Error);
}

}  // namespace
}  // namespace headlens::training
