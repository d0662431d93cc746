// Recovery in factors on every back end: the layer against plain loops, its derivative against differences
// of these loops, projections and steps against their equations, descent, and a whole recovery. Tokens and
// ranks lie on both sides of 32, the width of a block of the device, and short examples share a block.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/backend.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/gauge.hpp"
#include "reference/backends.hpp"

namespace headlens {
namespace {

using backend::HeadColumns;
using reference::OnEveryBackend;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

using FactorContract = OnEveryBackend;

Matrix<double> drawn(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

struct Shape {
  Index examples, tokens, dim, outputs;
  backend::HeadRanks ranks;
};

std::vector<Shape> shapes() {
  return {{3, 2, 1, 1, {{1}, {1}}},        {5, 1, 3, 2, {{2}, {2}}},
          {40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}}, {23, 4, 9, 2, {{4, 3}, {2, 4}}},
          {5, 33, 6, 3, {{2, 3}, {1, 4}}},  {3, 40, 37, 5, {{36}, {35}}},
          {2, 100, 4, 3, {{3, 2}, {2, 2}}}};
}

// All that a problem is made of. Logits of size one, so that no head settles on one token.
struct Input {
  Shape shape;
  Matrix<double> x, y, parameters, o;

  Input(const Shape& s, std::uint64_t seed) : shape(s) {
    Stream stream(seed, "factors on back ends");
    x = drawn(s.examples * s.tokens, s.dim, 1, stream);
    y = drawn(s.examples * s.tokens, s.outputs, 1, stream);
    parameters = drawn(s.dim, s.ranks.parameter_columns(), 0.7 / std::sqrt(double(s.dim)), stream);
    o = drawn(s.ranks.value_columns(), s.outputs, 0.7, stream);
  }
  backend::LayerExamples examples() const { return {x.view(), y.view(), shape.tokens}; }
};

// Phi by loops, with the bound on its rounding: a logit of size s has an error of (2 d + r) eps s, which
// changes a weight by twice that, and sums over d coordinates and k tokens add (d + k) eps. Factor 4 for the
// order of the sums and for exp.
struct Phi {
  Matrix<double> values, bounds;
};
Phi phi_of(const Input& in, const Matrix<double>& parameters) {
  const Shape& s = in.shape;
  const Index k = s.tokens, rows = s.examples * k;
  Phi out{Matrix<double>(rows, s.ranks.value_columns()), Matrix<double>(rows, s.ranks.value_columns())};
  const auto projected = [&](Index row, Index column, bool absolute) {
    double sum = 0;
    for (Index q = 0; q < s.dim; ++q)
      sum += absolute ? std::abs(in.x(row, q) * parameters(q, column)) : in.x(row, q) * parameters(q, column);
    return sum;
  };
  for (const HeadColumns& h : backend::columns_of(s.ranks))
    for (Index row = 0; row < rows; ++row) {
      const Index first = row / k * k;
      std::vector<double> weight;
      double total = 0, largest = 0;
      for (Index b = 0; b < k; ++b) {
        double logit = 0, size = 0;
        for (Index j = 0; j < h.logits; ++j) {
          logit += projected(row, h.q + j, false) * projected(first + b, h.k + j, false);
          size += projected(row, h.q + j, true) * projected(first + b, h.k + j, true);
        }
        weight.push_back(std::exp(logit));
        total += weight.back();
        largest = std::max(largest, size);
      }
      for (Index j = 0; j < h.values; ++j) {
        double sum = 0, size = 0;
        for (Index b = 0; b < k; ++b) {
          sum += weight[std::size_t(b)] / total * projected(first + b, h.v + j, false);
          size += weight[std::size_t(b)] / total * projected(first + b, h.v + j, true);
        }
        const double roundings = 2 * double(2 * s.dim + h.logits) * largest + double(s.dim + k) + 8;
        out.values(row, h.o + j) = sum;
        out.bounds(row, h.o + j) = 4 * kEpsilon * roundings * size;
      }
    }
  return out;
}

Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> out = Matrix<double>::zeros(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index l = 0; l < a.cols(); ++l)
      for (Index j = 0; j < b.cols(); ++j) out(i, j) += a(i, l) * b(l, j);
  return out;
}

double norm(const Matrix<double>& a) { return std::sqrt(squared_norm(a)); }

// |a^T b|
double overlap(const Matrix<double>& a, const Matrix<double>& b) {
  double squares = 0;
  for (Index i = 0; i < a.cols(); ++i)
    for (Index j = 0; j < b.cols(); ++j) {
      double sum = 0;
      for (Index row = 0; row < a.rows(); ++row) sum += a(row, i) * b(row, j);
      squares += sum * sum;
    }
  return std::sqrt(squares);
}

TEST_P(FactorContract, LayerAgreesWithTheLoops) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : shapes()) {
    const Input in(s, 1);
    const backend::FactorValues values{copy_of(in.parameters), copy_of(in.o)};
    const Matrix<double> f = context.machine.apply_factors(in.x, s.tokens, s.ranks, values, context);
    const Phi phi = phi_of(in, in.parameters);
    double squares = 0;
    for (Index row = 0; row < f.rows(); ++row)
      for (Index c = 0; c < s.outputs; ++c) {
        double sum = 0, bound = 0;
        for (Index b = 0; b < in.o.rows(); ++b) {
          sum += phi.values(row, b) * in.o(b, c);
          bound += (phi.bounds(row, b) + double(in.o.rows()) * kEpsilon * std::abs(phi.values(row, b))) *
                   std::abs(in.o(b, c));
        }
        ASSERT_NEAR(f(row, c), sum, bound) << s.tokens << " tokens, row " << row;
        squares += (f(row, c) - in.y(row, c)) * (f(row, c) - in.y(row, c));
      }
    EXPECT_NEAR(context.machine.factor_squares(in.examples(), s.ranks, values, context), squares,
                double(f.rows() * s.outputs) * kEpsilon * squares);
  }
}

// O solves the normal equations to the backward error of a Cholesky solve, b eps |G| |O|, and the residual
// is that of O.
TEST_P(FactorContract, EliminatedReadoutIsTheBest) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : {Shape{40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}}, Shape{30, 33, 6, 3, {{2, 3}, {1, 4}}}}) {
    const Input in(s, 2);
    const auto problem = context.machine.make_factor_problem(in.examples(), s.ranks, context);
    const auto point = problem->make_point();
    problem->evaluate(copy_of(in.parameters), 0, *point);
    ASSERT_TRUE(point->finite);
    const Phi phi = phi_of(in, in.parameters);
    Matrix<double> left = product(phi.values, point->w);
    for (Index i = 0; i < left.rows() * left.cols(); ++i) left.data()[i] = in.y.data()[i] - left.data()[i];
    const double gram = squared_norm(phi.values), b = double(phi.values.cols());
    EXPECT_LT(overlap(phi.values, left), (20 * b * kEpsilon + 1e-14) * gram * norm(point->w));
    const Matrix<double> residual = problem->residual(*point);
    EXPECT_NEAR(point->squares, squared_norm(residual), 1e-13 * point->squares);
    EXPECT_NEAR(problem->y_squares(), squared_norm(in.y), 1e-13 * squared_norm(in.y));
    add(-1.0, residual, left);
    EXPECT_LT(norm(left), (norm(phi.bounds) + b * kEpsilon * norm(phi.values)) * norm(point->w));
  }
}

// A problem at its point, with a linear model there.
struct Posed {
  std::unique_ptr<backend::LayerProblem> problem;
  std::unique_ptr<backend::LayerPoint> point;
  std::unique_ptr<backend::LinearModel> model;

  Posed(const Input& in, const backend::Context& context)
      : problem(context.machine.make_factor_problem(in.examples(), in.shape.ranks, context)),
        point(problem->make_point()) {
    problem->evaluate(copy_of(in.parameters), 0, *point);
    problem->linearise(*point);
    model = problem->make_linear_model();
    model->move_to(*point);
  }
};

TEST_P(FactorContract, DerivativeIsTheLimitOfDifferences) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : shapes()) {
    const Input in(s, 3);
    Posed posed(in, context);
    Stream stream(4, "direction");
    const Matrix<double> direction = drawn(s.dim, s.ranks.parameter_columns(), 1 / std::sqrt(double(s.dim)), stream);
    Matrix<double> moved(in.y.rows(), s.outputs), ahead = copy_of(in.parameters),
                                                  behind = copy_of(in.parameters);
    posed.model->derivative(direction, moved);
    const double step = 1e-5;
    add(step, direction, ahead);
    add(-step, direction, behind);
    Matrix<double> slope = phi_of(in, ahead).values;
    add(-1.0, phi_of(in, behind).values, slope);
    const Matrix<double> expected = product(slope, posed.point->w);
    // Differences are good to step^2 and eps / step, times the size of O.
    for (Index i = 0; i < moved.rows() * moved.cols(); ++i)
      ASSERT_NEAR(moved.data()[i], expected.data()[i] / (2 * step), 1e-6 * (1 + norm(posed.point->w)))
          << s.tokens << " tokens";
  }
}

// Sums of n k e and of d (2 a + b) products each, of all sizes: 1e-12 of the norms is far above their
// rounding and far below any term that is missing.
TEST_P(FactorContract, AdjointProjectionAndGradientBelongTogether) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : shapes()) {
    const Input in(s, 5);
    Posed posed(in, context);
    Stream stream(6, "adjoint");
    const Matrix<double> direction = drawn(s.dim, s.ranks.parameter_columns(), 1, stream),
                         z = drawn(in.y.rows(), s.outputs, 1, stream);
    Matrix<double> moved(in.y.rows(), s.outputs), back(s.dim, direction.cols()), other(s.dim, direction.cols());
    posed.model->derivative(direction, moved);
    posed.model->adjoint(z, back);
    EXPECT_NEAR(inner_product(moved, z), inner_product(direction, back), 1e-12 * norm(moved) * norm(z));
    posed.model->adjoint(posed.problem->residual(*posed.point), back);
    posed.problem->gradient(*posed.point, other);
    const double size = norm(other);
    add(-1.0, back, other);
    EXPECT_LE(norm(other), 1e-12 * size);
    posed.model->normal_product(direction, back);
    posed.model->project(moved);
    posed.model->adjoint(moved, other);
    const double curved = norm(back);
    add(-1.0, other, back);
    EXPECT_LE(norm(back), 1e-12 * (curved + norm(other)));
  }
}

// P_perp z has no part along Phi, and z - P_perp z is Phi times the best readout of z.
TEST_P(FactorContract, ProjectionLeavesWhatNoReadoutExplains) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({60, 5, 6, 4, {{2, 3}, {2, 3}}}, 7);
  Posed posed(in, context);
  Stream stream(8, "projection");
  const Matrix<double> z = drawn(in.y.rows(), 4, 1, stream);
  Matrix<double> left = copy_of(z);
  posed.model->project(left);
  const Phi phi = phi_of(in, in.parameters);
  const Matrix<double> w = posed.model->best_w(z);
  EXPECT_LT(overlap(phi.values, left), 1e-11 * norm(phi.values) * norm(z));
  Matrix<double> explained = product(phi.values, w);
  add(1.0, left, explained);
  add(-1.0, z, explained);
  EXPECT_LT(norm(explained), 1e-11 * norm(z));
}

// In float the step is good to what the solver was asked for, measured in double in the norm of the
// preconditioner, as recovery measures it; in double to all digits that were asked for.
TEST_P(FactorContract, StepSolvesItsEquations) {
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
TEST_P(FactorContract, PreconditionerIsSymmetric) {
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
TEST_P(FactorContract, DirectionsAreThoseOfTheHost) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : {Shape{50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, Shape{60, 3, 150, 2, {{70, 9}, {40, 41}}}}) {
    const Input in(s, 15);
    Posed posed(in, context);
    posed.model->refresh_preconditioner(*posed.point);
    posed.model->shift_preconditioner(1);
    Stream stream(16, "directions");
    const Matrix<double> a = drawn(s.dim, in.parameters.cols(), 1, stream), b = drawn(s.dim, a.cols(), 1, stream);
    const auto space = posed.model->directions();
    auto x = space->hold(a);
    const auto y = space->hold(b), zero = space->zero();
    EXPECT_NEAR(space->inner(*x, *y), inner_product(a, b), 1e-13 * norm(a) * norm(b));
    EXPECT_EQ(space->inner(*zero, *zero), 0);
    space->scale(3, *x);
    space->add(-2, *y, *x);
    const Matrix<double> sum = space->fetch(*x);
    for (Index i = 0; i < a.rows() * a.cols(); ++i)
      ASSERT_NEAR(sum.data()[i], 3 * a.data()[i] - 2 * b.data()[i], 4 * kEpsilon * (std::abs(sum.data()[i]) + 9));
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

// The fixed gauge adds its multiple of gauge_part() to every product, wherever that is computed.
TEST_P(FactorContract, FixedGaugeIsThatOfTheHost) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : {Shape{50, 4, 7, 3, {{0, 2, 3}, {2, 1, 3}}}, Shape{60, 3, 150, 2, {{70, 9}, {40, 41}}}}) {
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
TEST_P(FactorContract, ResponseIsThatOfItsParts) {
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
TEST_P(FactorContract, DescentGoesAgainstTheGradient) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({12, 4, 5, 3, {{2, 1}, {1, 2}}}, 12);
  const auto descent = context.machine.make_factor_descent(
      in.examples(), in.shape.ranks, {copy_of(in.parameters), copy_of(in.o)}, context);
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

TEST_P(FactorContract, DescentLearnsFromTheExamplesOfItsBatch) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  Input in({8, 4, 5, 3, {{2, 1}, {1, 2}}}, 13);
  for (Index i = 0; i < 4 * 4 * 3; ++i) in.y.data()[i] = 1e3;  // of the first four examples
  const auto descent = context.machine.make_factor_descent(
      in.examples(), in.shape.ranks, {copy_of(in.parameters), copy_of(in.o)}, context);
  const Matrix<double> f = product(phi_of(in, in.parameters).values, in.o);
  double left = 0, labels = 0;
  for (const Index row : {28, 29, 30, 31, 16, 17, 18, 19})
    for (Index c = 0; c < 3; ++c) {
      left += std::pow(f(row, c) - in.y(row, c), 2);
      labels += std::pow(in.y(row, c), 2);
    }
  EXPECT_NEAR(descent->step({7, 4}, 1e-3), left / labels, 0x1p-6 * (1 + left / labels));
}

// A whole recovery: the heads to 1e-8, and the same bytes when it is repeated.
TEST_P(FactorContract, RecoversALayer) {
  const AttentionLayer teacher = draw_teacher({.heads = 2, .dim = 16, .outputs = 16, .rank = 4, .seed = 21});
  const Examples examples = draw_examples(teacher, {.count = 400, .tokens = 8, .seed = 22}, {});
  Execution run = execution();
  run.threads = 2;
  const RecoverOptions options{.heads = 2, .rank = "4", .seed = 23};
  const Recovery first = recover(examples, options, run), again = recover(examples, options, run);
  ASSERT_EQ(first.certificate.status, RecoveryStatus::recovered) << first.certificate.reason;
  EXPECT_EQ(first.certificate.backend, GetParam());
  for (const HeadMatch& match : compare_layers(*first.layer, teacher).matches) {
    EXPECT_LT(match.theta_error, 1e-8);
    EXPECT_LT(match.w_error, 1e-8);
  }
  ASSERT_TRUE(again.layer);
  for (Index i = 0; i < first.layer->theta.size(); ++i)
    ASSERT_EQ(first.layer->theta.at(i), again.layer->theta.at(i));
}

// What a machine cannot hold is refused in one line before anything is computed.
TEST_P(FactorContract, TooManyTokensAreRefusedOrRight) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  const Input in({1, 200, 3, 2, {{2}, {2}}}, 14);
  try {
    const auto problem = context.machine.make_factor_problem(in.examples(), in.shape.ranks, context);
    const auto point = problem->make_point();
    problem->evaluate(copy_of(in.parameters), 0, *point);
    EXPECT_TRUE(point->finite);
  } catch (const Error& error) {
    EXPECT_EQ(GetParam(), "cuda");
    EXPECT_NE(std::string(error.what()).find("200"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FactorContract, testing::ValuesIn(reference::backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headlens
