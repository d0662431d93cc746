// Steps, directions and descent in factors on every back end, against their equations and against loops.
#include <gtest/gtest.h>

#include <cmath>

#include "factor_input.hpp"
#include "recover/factors/gauge.hpp"
#include "reference/backends.hpp"

namespace headlens {
namespace {

using namespace factor_input;
using reference::OnEveryBackend;

using FactorSteps = OnEveryBackend;

// In float the step is good to what the solver was asked for, measured in double in the norm of the
// preconditioner, as recovery measures it; in double to all digits that were asked for.
TEST_P(FactorSteps, StepSolvesItsEquations) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({300, 5, 8, 8, {{3, 2}, {3, 4}}}, 9);
  Posed posed(in, context);
  posed.model->refresh_preconditioner(*posed.point);
  const double mu = 1e-3 * static_cast<double>(posed.problem->rows());
  posed.model->shift_preconditioner(mu);
  Matrix<double> gradient(8, in.parameters.cols());
  posed.problem->gradient(*posed.point, gradient);
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    const double tolerance = precision == Precision::f64 ? 1e-9 : 1e-2;
    const backend::Step step =
        posed.model->solve(gradient, mu, tolerance, 400, precision, [] { return false; });
    Matrix<double> image(8, in.parameters.cols());
    posed.model->normal_product(step.direction, image);
    add(mu, step.direction, image);
    add(-1.0, gradient, image);
    EXPECT_LT(inner_product(image, posed.model->precondition(image)),
              9 * tolerance * tolerance * inner_product(gradient, posed.model->precondition(gradient)));
    EXPECT_LT(step.inner, 60);  // 112 unknowns: without a preconditioner all of them
    // |r|^2 falls by <g, d> to first order, and the model is a parabola.
    EXPECT_GT(step.predicted, 0);
    EXPECT_LT(step.predicted, 2 * inner_product(gradient, step.direction));
  }
  EXPECT_EQ(posed.model->solve(gradient, mu, 1e-9, 400, Precision::f32, [] { return true; }).inner, 0);
}

// The preconditioner is symmetric and positive.
TEST_P(FactorSteps, PreconditionerIsSymmetric) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, 10);
  Posed posed(in, context);
  posed.model->refresh_preconditioner(*posed.point);
  posed.model->shift_preconditioner(1);
  Stream stream(11, "preconditioner");
  const Matrix<double> a = drawn(7, in.parameters.cols(), 1, stream), b = drawn(7, a.cols(), 1, stream);
  const Matrix<double> pa = posed.model->precondition(a), pb = posed.model->precondition(b);
  EXPECT_NEAR(inner_product(a, pb), inner_product(b, pa), 1e-12 * norm(pa) * norm(b));
  EXPECT_GT(inner_product(a, pa), 0);
}

// Directions on a machine are matrices: sums, products and the gauge as on the host. One problem is small
// enough for the host, the other is not.
TEST_P(FactorSteps, DirectionsAreThoseOfTheHost) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s :
       {Shape{50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, Shape{60, 3, 150, 2, {{70, 9}, {40, 41}}}}) {
    const Input in(s, 15);
    Posed posed(in, context);
    posed.model->refresh_preconditioner(*posed.point);
    posed.model->shift_preconditioner(1);
    Stream stream(16, "directions");
    const Matrix<double> a = drawn(s.dim, in.parameters.cols(), 1, stream),
                         b = drawn(s.dim, a.cols(), 1, stream);
    const auto space = posed.model->directions();
    auto x = space->hold(a);
    const auto y = space->hold(b), zero = space->zero();
    EXPECT_NEAR(space->inner(*x, *y), inner_product(a, b), 1e-13 * norm(a) * norm(b));
    EXPECT_EQ(space->inner(*zero, *zero), 0);
    space->scale(3, *x);
    space->add(-2, *y, *x);
    const Matrix<double> sum = space->fetch(*x);
    for (Index i = 0; i < a.rows() * a.cols(); ++i)
      ASSERT_NEAR(sum.data()[i], 3 * a.data()[i] - 2 * b.data()[i],
                  4 * kEpsilon * (std::abs(sum.data()[i]) + 9));
    Matrix<double> expected(s.dim, a.cols());
    posed.model->normal_product(b, expected);
    Matrix<double> found = space->fetch(*space->normal_product(*y));
    add(-1.0, expected, found);
    EXPECT_LE(norm(found), 1e-13 * norm(expected));
    found = space->fetch(*space->precondition(*y));
    add(-1.0, posed.model->precondition(b), found);
    EXPECT_LE(norm(found), 1e-12 * norm(b));
  }
}

// As many as one launch of a device takes, one more, and more than twice as many; none at all.
TEST_P(FactorSteps, SeveralDirectionsAreThoseOfLoops) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, 21);
  Posed posed(in, context);
  const auto space = posed.model->directions();
  for (const Index count : {0, 1, 16, 17, 33}) {
    Stream stream(22, "several directions", static_cast<std::uint64_t>(count));
    std::vector<Matrix<double>> all;
    std::vector<backend::Directions::Held> held;
    backend::Directions::Several several;
    std::vector<double> factors;
    for (Index i = 0; i < count; ++i) {
      all.push_back(drawn(7, in.parameters.cols(), 1, stream));
      held.push_back(space->hold(all.back()));
      several.push_back(held.back().get());
      factors.push_back(stream.normal());
    }
    Matrix<double> b = drawn(7, in.parameters.cols(), 1, stream);
    const auto to = space->hold(b);
    const std::vector<double> found = space->inner(several, *to);
    ASSERT_EQ(std::ssize(found), count);
    double size = norm(b);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_NEAR(found[i], inner_product(all[i], b), 1e-13 * norm(all[i]) * norm(b)) << i;
      size += std::abs(factors[i]) * norm(all[i]);
    }
    for (std::size_t i = 0; i < all.size(); ++i) add(factors[i], all[i], b);
    space->add(factors, several, *to);
    Matrix<double> left = space->fetch(*to);
    add(-1.0, b, left);
    EXPECT_LE(norm(left), 64 * kEpsilon * size) << count;
  }
}

// Without a ridge no label changes along the gauge, so gradients have no part there: what a search takes from
// them for the last digits is rounding.
TEST_P(FactorSteps, GradientsHaveNoPartAlongTheGauge) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : {Shape{50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, Shape{60, 3, 20, 5, {{7, 9}, {4, 4}}}}) {
    Input in(s, 19);
    const recovery::Factors factors =
        recovery::balanced({s.ranks, {copy_of(in.parameters), copy_of(in.o)}, 1, 1});
    in.shape.ranks = factors.ranks;
    in.parameters = copy_of(factors.values.parameters);
    const Posed posed(in, context);
    Matrix<double> gradient(s.dim, in.parameters.cols());
    posed.problem->gradient(*posed.point, gradient);
    EXPECT_GT(norm(gradient), 0);
    EXPECT_LT(norm(recovery::gauge_part(factors, gradient)), 1e-11 * norm(gradient));
  }
}

// The fixed gauge adds its multiple of gauge_part() to every product, wherever that is computed.
TEST_P(FactorSteps, FixedGaugeIsThatOfTheHost) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s :
       {Shape{50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, Shape{60, 3, 150, 2, {{70, 9}, {40, 41}}}}) {
    Input in(s, 17);
    const recovery::Factors factors =
        recovery::balanced({s.ranks, {copy_of(in.parameters), copy_of(in.o)}, 1, 1});
    in.shape.ranks = factors.ranks;
    in.parameters = copy_of(factors.values.parameters);
    Posed posed(in, context);
    const recovery::GaugeFixed fixed(*posed.problem, factors, 7);
    const auto model = fixed.make_linear_model();
    model->move_to(*posed.point);
    Stream stream(18, "gauge");
    const Matrix<double> a = drawn(s.dim, in.parameters.cols(), 1, stream);
    Matrix<double> expected(s.dim, a.cols());
    posed.model->normal_product(a, expected);
    add(7.0, recovery::gauge_part(factors, a), expected);
    const auto space = model->directions();
    Matrix<double> found = space->fetch(*space->normal_product(*space->hold(a)));
    add(-1.0, expected, found);
    EXPECT_LT(norm(found), 1e-12 * norm(expected));
  }
}

// What an error of the labels does, by the functions that it is made of.
TEST_P(FactorSteps, ResponseIsThatOfItsParts) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({60, 5, 6, 4, {{2, 3}, {2, 3}}}, 19);
  Posed posed(in, context);
  Stream stream(20, "noise");
  const Matrix<double> nu = drawn(in.y.rows(), 4, 1, stream), dp = drawn(6, in.parameters.cols(), 1, stream);
  Matrix<double> found(6, dp.cols()), expected(6, dp.cols()), left = copy_of(nu), moved(nu.rows(), 4);
  posed.model->respond(nu, found);
  posed.model->project(left);
  posed.model->adjoint(left, expected);
  add(-1.0, expected, found);
  EXPECT_LE(norm(found), 1e-13 * norm(expected));
  posed.model->derivative(dp, moved);
  left = copy_of(nu);
  add(-1.0, moved, left);
  Matrix<double> w = posed.model->respond_in_w(nu, dp);
  const Matrix<double> best = posed.model->best_w(left);
  add(-1.0, best, w);
  EXPECT_LE(norm(w), 1e-12 * norm(best));
}

double loss_of(const Input& in, const Matrix<double>& parameters) {
  Matrix<double> f = product(phi_of(in, parameters).values, in.o);
  add(-1.0, in.y, f);
  return squared_norm(f) / squared_norm(in.y);
}

// One step of descent moves every parameter against the sign of its gradient by the rate: Adam's first step.
// A device may round factors to 11 bits, so 2^-6 of the largest slope is as far as its sign is known.
TEST_P(FactorSteps, DescentGoesAgainstTheGradient) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({12, 4, 5, 3, {{2, 1}, {1, 2}}}, 12);
  const auto descent = context.machine.make_factor_descent(in.examples(), in.shape.ranks,
                                                           {copy_of(in.parameters), copy_of(in.o)}, context);
  std::vector<Index> all;
  for (Index i = 0; i < in.shape.examples; ++i) all.push_back(i);
  const double loss = loss_of(in, in.parameters);
  EXPECT_NEAR(descent->step(all, 1e-3), loss, 0x1p-6 * (1 + loss));
  const backend::FactorValues after = descent->values();
  std::vector<double> slopes;
  double largest = 0;
  for (Index i = 0; i < in.parameters.rows() * in.parameters.cols(); ++i) {
    Matrix<double> ahead = copy_of(in.parameters), behind = copy_of(in.parameters);
    ahead.data()[i] += 1e-4;
    behind.data()[i] -= 1e-4;
    slopes.push_back((loss_of(in, ahead) - loss_of(in, behind)) / 2e-4);
    largest = std::max(largest, std::abs(slopes.back()));
  }
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    if (std::abs(slopes[i]) < 0x1p-6 * largest) continue;
    EXPECT_NEAR(after.parameters.data()[i] - in.parameters.data()[i], slopes[i] > 0 ? -1e-3 : 1e-3, 2e-5);
  }
}

// The running mean follows the values with the shares that all machines have, in float.
TEST_P(FactorSteps, DescentKeepsTheMeanOfItsValues) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({12, 4, 5, 3, {{2, 1}, {1, 2}}}, 24);
  const auto descent = context.machine.make_factor_descent(in.examples(), in.shape.ranks,
                                                           {copy_of(in.parameters), copy_of(in.o)}, context);
  Matrix<double> mean = copy_of(in.parameters);
  for (int t = 1; t <= 4; ++t) {
    descent->step({Index(t), Index(11 - t)}, 1e-2);
    const Matrix<double> now = descent->values().parameters;
    for (Index i = 0; i < mean.rows() * mean.cols(); ++i)
      mean.data()[i] += backend::averaged_share(t) * (now.data()[i] - mean.data()[i]);
  }
  const Matrix<double> found = descent->mean_values().parameters;
  for (Index i = 0; i < mean.rows() * mean.cols(); ++i)
    EXPECT_NEAR(found.data()[i], mean.data()[i], 16 * 0x1p-24 * (1 + std::abs(mean.data()[i])));
  descent->go_to_mean();
  const Matrix<double> there = descent->values().parameters;
  for (Index i = 0; i < mean.rows() * mean.cols(); ++i) EXPECT_EQ(there.data()[i], found.data()[i]);
}

TEST_P(FactorSteps, DescentLearnsFromTheExamplesOfItsBatch) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  Input in({8, 4, 5, 3, {{2, 1}, {1, 2}}}, 13);
  for (Index i = 0; i < 4 * 4 * 3; ++i) in.y.data()[i] = 1e3;  // of the first four examples
  const auto descent = context.machine.make_factor_descent(in.examples(), in.shape.ranks,
                                                           {copy_of(in.parameters), copy_of(in.o)}, context);
  const Matrix<double> f = product(phi_of(in, in.parameters).values, in.o);
  double left = 0, labels = 0;
  for (const Index row : {28, 29, 30, 31, 16, 17, 18, 19})
    for (Index c = 0; c < 3; ++c) {
      left += std::pow(f(row, c) - in.y(row, c), 2);
      labels += std::pow(in.y(row, c), 2);
    }
  EXPECT_NEAR(descent->step({7, 4}, 1e-3), left / labels, 0x1p-6 * (1 + left / labels));
}

INSTANTIATE_TEST_SUITE_P(Backends, FactorSteps, testing::ValuesIn(reference::backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headlens
