#include "linalg/linear_program.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace headlens {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Matrix<double> rows_of(std::initializer_list<std::initializer_list<double>> values) {
  Matrix<double> out(static_cast<Index>(values.size()), static_cast<Index>(values.begin()->size()));
  double* to = out.data();
  for (const auto& row : values)
    for (const double x : row) *to++ = x;
  return out;
}

// max 3x + 2y over x + y <= 4, x + 3y <= 7, 0 <= x <= 3, 0 <= y: the corner (3, 1), with value 11.
TEST(LinearProgram, FindsTheCornerOfATextbookProgram) {
  LinearProgram program(rows_of({{1, 1}, {1, 3}}), {{-kInfinity, -kInfinity}, {4, 7}},
                        {{0, 0}, {3, kInfinity}});
  const LpSolution solution = program.minimise({-3, -2});
  ASSERT_TRUE(solution.ok());
  EXPECT_NEAR(solution.value, -11, 1e-9);
  EXPECT_NEAR(solution.x[0], 3, 1e-9);
  EXPECT_NEAR(solution.x[1], 1, 1e-9);
}

TEST(LinearProgram, ServesManyObjectives) {
  LinearProgram program(rows_of({{1, 1}, {1, -1}}), {{-1, -1}, {1, 1}},
                        {{-9, -9}, {9, 9}});  // |x| + |y| <= 1
  EXPECT_NEAR(program.minimise({1, 0}).x[0], -1, 1e-9);
  EXPECT_NEAR(program.minimise({-1, 0}).x[0], 1, 1e-9);
  EXPECT_NEAR(program.minimise({0, 2}).value, -2, 1e-9);
  EXPECT_NEAR(program.minimise({3, 1}).value, -3, 1e-9);
}

TEST(LinearProgram, SaysWhyThereIsNoSolution) {
  LinearProgram empty(rows_of({{1}, {1}}), {{2, -kInfinity}, {kInfinity, 1}}, {{-5}, {5}});
  EXPECT_EQ(empty.minimise({1}).status, LpStatus::infeasible);
  LinearProgram open(rows_of({{1}}), {{-kInfinity}, {1}}, {{-kInfinity}, {kInfinity}});
  EXPECT_EQ(open.minimise({1}).status, LpStatus::unbounded);
}

}  // namespace
}  // namespace headlens
