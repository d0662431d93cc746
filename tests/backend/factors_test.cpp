// The layer in factors on every back end: against plain loops, its derivative against differences of these
// loops, projections against their equations, and a whole recovery. Tokens and ranks lie on both sides of 32,
// the width of a block of the device, and short examples share a block.
#include <gtest/gtest.h>

#include "factor_input.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "reference/backends.hpp"

namespace headlens {
namespace {

using namespace factor_input;
using reference::OnEveryBackend;

using FactorContract = OnEveryBackend;

TEST_P(FactorContract, LayerAgreesWithTheLoops) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : all_shapes()) {
    const Input in(s, 1);
    const backend::FactorValues values{copy_of(in.parameters), copy_of(in.o)};
    const Matrix<double> f = context.machine.apply_factors(in.examples(), s.ranks, values, context);
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
        ASSERT_NEAR(f(row, c), sum, bound) << name(s) << ", row " << row;
        const double counts = in.seen.rows() > 0 ? in.seen(row, c) : 1;
        squares += counts * (f(row, c) - in.y(row, c)) * (f(row, c) - in.y(row, c));
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
  std::vector<Shape> all = variant_shapes();
  all.push_back({40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}});
  all.push_back({30, 33, 6, 3, {{2, 3}, {1, 4}}});
  for (const Shape& s : all) {
    const Input in(s, 2);
    const auto problem = context.machine.make_factor_problem(in.examples(), s.ranks, context);
    const auto point = problem->make_point();
    problem->evaluate(copy_of(in.parameters), 0, *point);
    ASSERT_TRUE(point->finite);
    const Phi phi = phi_of(in, in.parameters);
    Matrix<double> left = product(phi.values, point->w);
    for (Index i = 0; i < left.rows() * left.cols(); ++i) left.data()[i] = in.y.data()[i] - left.data()[i];
    hide(in, left);
    const double gram = squared_norm(phi.values), b = double(phi.values.cols());
    EXPECT_LT(overlap(phi.values, left), (20 * b * kEpsilon + 1e-14) * gram * norm(point->w)) << name(s);
    const Matrix<double> residual = problem->residual(*point);
    EXPECT_NEAR(point->squares, squared_norm(residual), 1e-13 * point->squares);
    EXPECT_NEAR(problem->y_squares(), squared_norm(in.y), 1e-13 * squared_norm(in.y));
    add(-1.0, residual, left);
    EXPECT_LT(norm(left), (norm(phi.bounds) + b * kEpsilon * norm(phi.values)) * norm(point->w));
  }
}

TEST_P(FactorContract, DerivativeIsTheLimitOfDifferences) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : all_shapes()) {
    const Input in(s, 3);
    Posed posed(in, context);
    Stream stream(4, "direction");
    const Matrix<double> direction = in.direction(1 / std::sqrt(double(s.dim)), stream);
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
          << name(s);
  }
}

// Sums of n k e and of d (2 a + b) products each, of all sizes: 1e-12 of the norms is far above their
// rounding and far below any term that is missing.
TEST_P(FactorContract, AdjointProjectionAndGradientBelongTogether) {
  const Execution run = execution();
  const backend::Context context = backend::context_of(run);
  for (const Shape& s : all_shapes()) {
    const Input in(s, 5);
    Posed posed(in, context);
    Stream stream(6, "adjoint");
    const Matrix<double> direction = in.direction(1, stream), z = drawn(in.y.rows(), s.outputs, 1, stream);
    Matrix<double> moved(in.y.rows(), s.outputs), back(s.dim, direction.cols()),
        other(s.dim, direction.cols());
    posed.model->derivative(direction, moved);
    posed.model->adjoint(z, back);
    EXPECT_NEAR(inner_product(moved, z), inner_product(direction, back), 1e-12 * norm(moved) * norm(z))
        << name(s);
    posed.model->adjoint(posed.problem->residual(*posed.point), back);
    posed.problem->gradient(*posed.point, other);
    const double size = norm(other);
    add(-1.0, back, other);
    EXPECT_LE(norm(other), 1e-12 * size) << name(s);
    posed.model->normal_product(direction, back);
    posed.model->project(moved);
    posed.model->adjoint(moved, other);
    const double curved = norm(back);
    add(-1.0, other, back);
    EXPECT_LE(norm(back), 1e-12 * (curved + norm(other))) << name(s);
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
