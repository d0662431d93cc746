// Heads that should share, against all partitions and against heads that do share; steps of factors against
// what they promise.
#include "refit/grouping.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "refit/moving_factors.hpp"

namespace headlens::refitting {
namespace {

Matrix<double> normals(Index rows, Index cols, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

double total(const Matrix<double>& costs, const std::vector<Index>& order, Index size) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i + 1; j < order.size(); ++j)
      if (static_cast<Index>(i) / size == static_cast<Index>(j) / size) sum += costs(order[i], order[j]);
  return sum;
}

TEST(Grouping, FindsTheCheapestOfAllPartitions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const Index groups : {2, 3}) {
      Stream stream(seed, "costs");
      Matrix<double> costs = Matrix<double>::zeros(6, 6);
      for (Index i = 0; i < 6; ++i)
        for (Index j = 0; j < i; ++j) costs(i, j) = costs(j, i) = stream.uniform();
      std::vector<Index> order(6);
      std::iota(order.begin(), order.end(), Index{0});
      double least = 1e300;
      do least = std::min(least, total(costs, order, 6 / groups));
      while (std::next_permutation(order.begin(), order.end()));
      const std::vector<Index> found = cheapest_groups(costs, groups, 1);
      EXPECT_TRUE(std::is_permutation(found.begin(), found.end(), order.begin()));
      EXPECT_NEAR(total(costs, found, 6 / groups), least, 1e-12) << "seed " << seed;
    }
}

TEST(Grouping, HeadsThatShareCostLeast) {
  Stream stream(3, "sharing");
  const TiedShape shared{.rows = 8, .outputs = 8, .heads = 4, .groups = 2, .rank = 3, .value_rank = 3};
  TiedLayer alone{shared, {}, normals(shared.features(), 8, stream)};
  alone.shape.groups = 4;
  alone.parameters = normals(8, alone.shape.columns(), stream);
  for (const Index from : {alone.shape.k(0), alone.shape.v(0)})
    for (Index i = 0; i < 8; ++i)
      for (Index j = 0; j < 6; ++j)
        alone.parameters(i, from + 6 + j) = alone.parameters(i, from + j);  // 2 as 0, 3 as 1
  for (Index i = 0; i < 8 * alone.shape.columns(); ++i) alone.parameters.data()[i] /= 3;
  const Matrix<double> x = normals(400, 8, stream), y = normals(400, 8, stream);
  const Matrix<double> costs = pair_costs(
      alone, {x.view(), y.view(), 5}, {.rank = 3}, [] { return false; }, 1);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < i; ++j) {
      EXPECT_EQ(costs(i, j), costs(j, i));
      if (i - j != 2) {
        EXPECT_GT(costs(i, j), 100 * std::max(costs(2, 0), costs(3, 1)));
      }
    }
  EXPECT_EQ(total(costs, cheapest_groups(costs, 2, 0), 2), costs(2, 0) + costs(3, 1));
}

// The first step of two blocks side by side: the same length in every direction, whatever the gradient's.
TEST(MovingFactors, StepsAreOrthonormalInEveryBasis) {
  Stream stream(4, "steps");
  const Matrix<double> start = normals(7, 6, stream), gradient = normals(7, 6, stream);
  MovingFactors factors(start, {{0, 0, 7, 3}, {0, 3, 7, 3}}, {1, 2});
  for (Index i = 0; i < 7; ++i)
    for (Index j = 0; j < 6; ++j)
      factors.gradient(i, j) = static_cast<float>((j == 1 ? 1e-3 : 1) * gradient(i, j));
  factors.step(0.1, 1);
  for (const Index at : {0, 3}) {
    Matrix<double> moved(7, 3);
    double squares = 0;
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 3; ++j) {
        moved(i, j) = static_cast<double>(factors.value(i, at + j)) - start(i, at + j);
        squares += start(i, at + j) * start(i, at + j);
      }
    const double length = 0.1 * std::sqrt(squares / 21) * std::sqrt(7.0);
    for (const double value : svd(moved.view()).values) EXPECT_NEAR(value, length, 1e-3 * length);
    double downhill = 0;
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 3; ++j)
        downhill += moved(i, j) * static_cast<double>(factors.gradient(i, at + j));
    EXPECT_LT(downhill, 0);
  }
}

TEST(MovingFactors, NoGradientIsNoStep) {
  Stream stream(5, "rest");
  const Matrix<double> start = normals(4, 2, stream);
  MovingFactors factors(start, {{0, 0, 4, 2}}, {1});
  for (Index i = 0; i < 8; ++i) factors.gradient.data()[i] = 0;
  factors.step(0.1, 1);
  for (Index i = 0; i < 8; ++i) EXPECT_EQ(factors.value.data()[i], static_cast<float>(start.data()[i]));
}

}  // namespace
}  // namespace headlens::refitting
