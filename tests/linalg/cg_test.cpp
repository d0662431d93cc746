// Conjugate gradients: convergence, honest residuals, and every way to break down.
#include "linalg/cg.hpp"

#include <gtest/gtest.h>

#include "headlens/error.hpp"
#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

BlockOperator dense(const Matrix<double>& a) {
  return [&a](MatrixView<const double> in, MatrixView<double> out) { copy_rows(product(a, in), out); };
}

double worst_relative(const Matrix<double>& a, const Matrix<double>& x, const Matrix<double>& b) {
  const auto ax = product(a, x);
  double worst = 0;
  for (Index j = 0; j < b.cols(); ++j)
    worst = std::max(worst, distance(ax.view().block(0, j, b.rows(), 1), b.view().block(0, j, b.rows(), 1)) /
                                norm(b.view().block(0, j, b.rows(), 1)));
  return worst;
}

TEST(Cg, ReachesTheTolerance) {
  for (const Index n : {1, 2, 50, 200})
    for (const Index q : {1, 4}) {
      const auto a = random_positive(n, "a"), b = random_matrix(n, q, "b");
      auto x = Matrix<double>::zeros(n, q);
      const CgResult result =
          conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-10, .max_iterations = 500});
      ASSERT_TRUE(result.ok());
      EXPECT_LE(result.relative_residual, 1e-10);
      // The product of the test and of the operator are the same, so is the residual.
      EXPECT_NEAR(worst_relative(a, x, b), result.relative_residual, double(n) * kEps);
    }
}

TEST(Cg, OneIterationPerDistinctEigenvalue) {
  std::vector<double> values;
  for (Index k = 0; k < 90; ++k) values.push_back(1.0 + double(k % 3));
  const auto a = with_spectrum(values, random_orthogonal(90, "v")), b = random_matrix(90, 2, "b");
  auto x = Matrix<double>::zeros(90, 2);
  const CgResult result = conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-12, .max_iterations = 50});
  ASSERT_TRUE(result.ok());
  EXPECT_LE(result.iterations, 4);
}

TEST(Cg, TheExactInverseNeedsOneIteration) {
  auto a = Matrix<double>::zeros(40, 40);
  for (Index i = 0; i < 40; ++i) a(i, i) = double(1 + i * i);
  const BlockOperator inverse = [&](MatrixView<const double> in, MatrixView<double> out) {
    for (Index i = 0; i < 40; ++i)
      for (Index j = 0; j < in.cols; ++j) out(i, j) = in(i, j) / a(i, i);
  };
  const auto b = random_matrix(40, 3, "b");
  auto x = Matrix<double>::zeros(40, 3);
  const CgResult result =
      conjugate_gradients(dense(a), inverse, b, x, {.tolerance = 1e-12, .max_iterations = 50});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.iterations, 1);
}

TEST(Cg, ColumnsDoNotDisturbEachOther) {
  const auto a = random_positive(60, "a"), b = random_matrix(60, 3, "b");
  const CgOptions options{.tolerance = 1e-9, .max_iterations = 200};
  auto together = Matrix<double>::zeros(60, 3);
  ASSERT_TRUE(conjugate_gradients(dense(a), {}, b, together, options).ok());
  for (Index j = 0; j < 3; ++j) {
    auto alone = Matrix<double>::zeros(60, 1);
    ASSERT_TRUE(conjugate_gradients(dense(a), {}, b.view().block(0, j, 60, 1), alone, options).ok());
    for (Index i = 0; i < 60; ++i) EXPECT_EQ(alone(i, 0), together(i, j));
  }
}

TEST(Cg, ZeroRightHandSideAndEmptyShapes) {
  const auto a = random_positive(20, "a");
  auto b = Matrix<double>::zeros(20, 2);
  b(3, 1) = 1;  // one zero column beside an ordinary one
  auto x = Matrix<double>::zeros(20, 2);
  const CgResult result =
      conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-10, .max_iterations = 100});
  ASSERT_TRUE(result.ok());
  for (Index i = 0; i < 20; ++i) EXPECT_EQ(x(i, 0), 0);
  Matrix<double> empty(0, 3);
  EXPECT_TRUE(conjugate_gradients(dense(a), {}, empty, empty, {}).ok());
}

TEST(Cg, StartsFromTheGuess) {
  const auto a = random_positive(50, "a"), b = random_matrix(50, 1, "b");
  auto x = Matrix<double>::zeros(50, 1);
  const CgOptions options{.tolerance = 1e-10, .max_iterations = 100};
  ASSERT_TRUE(conjugate_gradients(dense(a), {}, b, x, options).ok());
  EXPECT_EQ(conjugate_gradients(dense(a), {}, b, x, options).iterations, 0);
}

TEST(Cg, IndefiniteMatricesStall) {
  auto a = identity(30);
  a(4, 4) = -1;
  const auto b = random_matrix(30, 1, "b");
  auto x = Matrix<double>::zeros(30, 1);
  const CgResult result =
      conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-10, .max_iterations = 1000});
  EXPECT_EQ(result.status, CgStatus::stalled);
  EXPECT_LT(result.iterations, 100);
  for (Index i = 0; i < 30; ++i) EXPECT_TRUE(std::isfinite(x(i, 0)));
}

TEST(Cg, NanStalls) {
  auto a = identity(10);
  a(2, 7) = std::numeric_limits<double>::quiet_NaN();
  const auto b = random_matrix(10, 2, "b");
  auto x = Matrix<double>::zeros(10, 2);
  const CgResult result =
      conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-10, .max_iterations = 100});
  EXPECT_EQ(result.status, CgStatus::stalled);
  EXPECT_FALSE(std::isnan(result.relative_residual));
}

TEST(Cg, OutOfIterations) {
  std::vector<double> values;
  for (Index k = 0; k < 100; ++k) values.push_back(std::pow(10.0, -double(k) / 20));
  const auto a = with_spectrum(values, random_orthogonal(100, "v")), b = random_matrix(100, 1, "b");
  auto x = Matrix<double>::zeros(100, 1);
  const CgResult result = conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-12, .max_iterations = 5});
  EXPECT_EQ(result.status, CgStatus::stalled);
  EXPECT_EQ(result.iterations, 5);
  EXPECT_NEAR(result.relative_residual, worst_relative(a, x, b), 100 * kEps);
}

// Below eps cond(A) the recurrence goes on falling while the true residual does not.
TEST(Cg, AnUnreachableToleranceStalls) {
  std::vector<double> values;
  for (Index k = 0; k < 50; ++k) values.push_back(std::pow(10.0, -double(k) / 5));
  const auto a = with_spectrum(values, random_orthogonal(50, "v"));
  const auto b = random_matrix(50, 1, "b");
  auto x = Matrix<double>::zeros(50, 1);
  const CgResult result =
      conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-17, .max_iterations = 100000});
  EXPECT_EQ(result.status, CgStatus::stalled);
  EXPECT_LT(result.iterations, 100000);
}

TEST(Cg, ReportsEachIterationAndCanBeStopped) {
  const auto a = random_positive(50, "a"), b = random_matrix(50, 2, "b");
  auto x = Matrix<double>::zeros(50, 2);
  int calls = 0;
  const CgResult result = conjugate_gradients(dense(a), {}, b, x, {.tolerance = 1e-10, .max_iterations = 100},
                                              [&](int iteration, double) { EXPECT_EQ(iteration, ++calls); });
  EXPECT_EQ(result.iterations, calls);
  auto y = Matrix<double>::zeros(50, 2);
  const auto stop = [](int, double) { throw Error(ErrorCode::interrupted, "interrupted"); };
  EXPECT_THROW((void)conjugate_gradients(dense(a), {}, b, y, {}, stop), Error);
}

}  // namespace
}  // namespace headlens
