#include "cpu/layer/variable_projection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "cpu/layer/step_solver.hpp"
#include "cpu/layer/tangent.hpp"
#include "headlens/layer.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kTokens = 4, kDim = 5, kHeads = 2, kOutputs = 3, kCount = 30;

Matrix<double> random_matrix(Index rows, Index cols, std::uint64_t seed, double scale = 1) {
  Matrix<double> out(rows, cols);
  Stream stream(seed, "test");
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = scale * stream.normal();
  return out;
}

struct Fixture : testing::Test {
  Matrix<double> x = random_matrix(kCount * kTokens, kDim, 1);
  Matrix<double> y = random_matrix(kCount * kTokens, kOutputs, 2);
  VariableProjection problem{x.view(), y.view(), kTokens, kHeads, 1};
  std::unique_ptr<backend::LayerPoint> held = problem.make_point();
  Point& point = as_point(*held);
};
using VariableProjectionTest = Fixture;

template <class T>
Tangent<T> tangent_at(const VariableProjection& problem, Point& point) {
  problem.linearise(point);
  Tangent<T> tangent(problem);
  tangent.move_to(point);
  return tangent;
}

TEST_F(VariableProjectionTest, WIsTheLeastSquaresSolution) {
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 0, point);
  ASSERT_TRUE(point.finite);
  // Normal equations: Phi^T residual = 0, up to the jitter of 1e-14.
  for (Index j = 0; j < kHeads * kDim; ++j)
    for (Index c = 0; c < kOutputs; ++c) {
      double sum = 0;
      for (Index i = 0; i < kCount * kTokens; ++i) sum += point.phi(i, j) * point.residual(i, c);
      EXPECT_NEAR(sum, 0, 1e-10);
    }
  EXPECT_NEAR(point.squares, squared_norm(point.residual), 1e-12 * point.squares);
}

TEST_F(VariableProjectionTest, ProjectionRemovesTheRangeOfPhi) {
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 0, point);
  Matrix<double> z = random_matrix(kCount * kTokens, kOutputs, 4), twice(kCount * kTokens, kOutputs);
  const Tangent<double> tangent = tangent_at<double>(problem, point);
  tangent.project(z);
  std::copy_n(z.data(), z.rows() * z.cols(), twice.data());
  tangent.project(twice);
  for (Index i = 0; i < z.rows() * z.cols(); ++i) EXPECT_NEAR(z.data()[i], twice.data()[i], 1e-10);
}

// The gradient of cost = |residual|^2 at ridge 0 is -2 J^T residual, exactly: W is optimal, so its change
// does not count.
TEST_F(VariableProjectionTest, AdjointOfTheResidualIsTheGradient) {
  Matrix<double> theta = random_matrix(kDim, kHeads * kDim, 3, 0.3);
  const Matrix<double> direction = random_matrix(kDim, kHeads * kDim, 5, 0.3);
  Matrix<double> start(kDim, kHeads * kDim), gradient(kDim, kHeads * kDim);
  std::copy_n(theta.data(), kDim * kHeads * kDim, start.data());
  problem.evaluate(std::move(start), 0, point);
  problem.linearise(point);
  problem.gradient(point, gradient);
  const double h = 1e-6;
  const auto cost_at = [&](double step) {
    Matrix<double> moved(kDim, kHeads * kDim);
    for (Index i = 0; i < kDim * kHeads * kDim; ++i)
      moved.data()[i] = theta.data()[i] + step * direction.data()[i];
    const std::unique_ptr<backend::LayerPoint> there = problem.make_point();
    problem.evaluate(std::move(moved), 0, *there);
    return there->squares;
  };
  const double slope = (cost_at(h) - cost_at(-h)) / (2 * h);
  EXPECT_NEAR(slope, -2 * inner_product(gradient, direction), 1e-6 * std::abs(slope));
}

TEST_F(VariableProjectionTest, AdjointIsTheTransposeOfTheDerivative) {
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 1e-3, point);
  const Matrix<double> v = random_matrix(kDim, kHeads * kDim, 5),
                       z = random_matrix(kCount * kTokens, kOutputs, 6);
  Matrix<double> jv(kCount * kTokens, kOutputs), jtz(kDim, kHeads * kDim);
  const Tangent<double> tangent = tangent_at<double>(problem, point);
  tangent.derivative(v, jv);
  tangent.adjoint(z, jtz);
  EXPECT_NEAR(inner_product(z, jv), inner_product(jtz, v), 1e-10);
}

// Each factor of J^T P_perp J is a product of a few hundred float terms of size one.
TEST_F(VariableProjectionTest, SinglePrecisionAgreesWithDouble) {
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 1e-9, point);
  const Matrix<double> v = random_matrix(kDim, kHeads * kDim, 5);
  Matrix<float> v_single(kDim, kHeads * kDim), image_single(kCount * kTokens, kOutputs),
      out_single(kDim, kHeads * kDim);
  for (Index i = 0; i < kDim * kHeads * kDim; ++i) v_single.data()[i] = static_cast<float>(v.data()[i]);
  Matrix<double> image(kCount * kTokens, kOutputs), out(kDim, kHeads * kDim);
  normal_product<double>(tangent_at<double>(problem, point), v, image, out);
  normal_product<float>(tangent_at<float>(problem, point), v_single, image_single, out_single);
  const double scale = std::sqrt(squared_norm(out));
  for (Index i = 0; i < kDim * kHeads * kDim; ++i)
    EXPECT_NEAR(out_single.data()[i], out.data()[i], 100 * std::numeric_limits<float>::epsilon() * scale);
}

// At the same Theta another ridge is only another solve.
TEST_F(VariableProjectionTest, AnotherRidgeIsAsIfEvaluatedWithIt) {
  const std::unique_ptr<backend::LayerPoint> another = problem.make_point();
  Point& other = as_point(*another);
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 1e-2, point);
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 1e-5, other);
  problem.solve_for_w(1e-5, point);
  EXPECT_EQ(point.cost, other.cost);
  for (Index i = 0; i < kHeads * kDim * kOutputs; ++i) EXPECT_EQ(point.w.data()[i], other.w.data()[i]);
}

// Rows of weight 0 do not count: their labels of 0 are not fitted, and W and the gradient are those of the
// others.
TEST_F(VariableProjectionTest, RowsOfWeightZeroDoNotCount) {
  std::vector<double> weights(static_cast<std::size_t>(kCount * kTokens), 1.0);
  for (std::size_t i = 0; i < weights.size(); i += 3) {
    weights[i] = 0;
    for (Index c = 0; c < kOutputs; ++c) y(static_cast<Index>(i), c) = 0;
  }
  VariableProjection some(x.view(), y.view(), kTokens, kHeads, 1, weights);
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 0, point);  // phi of all rows
  const std::unique_ptr<backend::LayerPoint> held_by_some = some.make_point();
  Point& weighted = as_point(*held_by_some);
  some.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 0, weighted);
  ASSERT_TRUE(weighted.finite);
  for (Index j = 0; j < kHeads * kDim; ++j)  // normal equations over the rows that count
    for (Index c = 0; c < kOutputs; ++c) {
      double sum = 0;
      for (Index i = 0; i < kCount * kTokens; ++i) {
        double residual = y(i, c);
        for (Index l = 0; l < kHeads * kDim; ++l) residual -= point.phi(i, l) * weighted.w(l, c);
        sum += weights[static_cast<std::size_t>(i)] * point.phi(i, j) * residual;
      }
      EXPECT_NEAR(sum, 0, 1e-10);
    }
  const Matrix<double> v = random_matrix(kDim, kHeads * kDim, 5);
  Matrix<double> jv(kCount * kTokens, kOutputs), jtz(kDim, kHeads * kDim);
  const Tangent<double> tangent = tangent_at<double>(some, weighted);
  tangent.derivative(v, jv);
  tangent.adjoint(weighted.residual, jtz);
  EXPECT_NEAR(inner_product(weighted.residual, jv), inner_product(jtz, v), 1e-10);
  for (Index i = 0; i < kCount * kTokens; i += 3)
    for (Index c = 0; c < kOutputs; ++c) EXPECT_EQ(jv(i, c), 0);
}

// All rows: B = sum over rows of K K^T, K the stacked C^i W_i, which is J with x_a replaced by unit vectors.
// So for dTheta = u v^T, |J dTheta|^2 = sum_a (x_a . u)^2 |K_a^T v|^2, and summing u over the basis weighs
// row a by |x_a|^2.
TEST_F(VariableProjectionTest, CurvatureIsTheRightFactorOfTheNormalMatrix) {
  for (Index i = 0; i < x.rows(); ++i) {  // rows of unit length make the weights one
    double square = 0;
    for (Index j = 0; j < kDim; ++j) square += x(i, j) * x(i, j);
    for (Index j = 0; j < kDim; ++j) x(i, j) /= std::sqrt(square);
  }
  problem.evaluate(random_matrix(kDim, kHeads * kDim, 3, 0.3), 1e-3, point);
  problem.linearise(point);
  const Matrix<double> b = problem.curvature(point, kCount * kTokens);
  const Matrix<double> v = random_matrix(1, kHeads * kDim, 7);
  double quadratic = 0;
  for (Index i = 0; i < kHeads * kDim; ++i)
    for (Index j = 0; j < kHeads * kDim; ++j) quadratic += v(0, i) * v(0, j) * (i >= j ? b(i, j) : b(j, i));
  double total = 0;
  const Tangent<double> tangent = tangent_at<double>(problem, point);
  Matrix<double> jv(kCount * kTokens, kOutputs);
  for (Index u = 0; u < kDim; ++u) {
    Matrix<double> direction = Matrix<double>::zeros(kDim, kHeads * kDim);
    for (Index j = 0; j < kHeads * kDim; ++j) direction(u, j) = v(0, j);
    tangent.derivative(direction, jv);
    total += squared_norm(jv);
  }
  EXPECT_NEAR(quadratic / total, 1, 1e-10);
}

}  // namespace
}  // namespace headlens::cpu
