// Labels of which a part is missing: the readout against one least-squares problem per output, and the
// projection and the slope against what they must be.
#include "backend/seen_labels.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "cpu/layer/factor_problem.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kPartExamples = 30, kPartTokens = 4, kPartDim = 5, kPartOutputs = 3;

struct Partial {
  backend::HeadRanks ranks{{2, 1}, {2, 3}};
  Matrix<double> x, y, seen, parameters;

  // whole_rows: rows are missing in all outputs at once.
  Partial(std::uint64_t seed, bool whole_rows)
      : x(kPartExamples * kPartTokens, kPartDim),
        y(kPartExamples * kPartTokens, kPartOutputs),
        seen(kPartExamples * kPartTokens, kPartOutputs),
        parameters(kPartDim, ranks.parameter_columns()) {
    Stream stream(seed, "partial labels");
    for (Index i = 0; i < x.rows() * kPartDim; ++i) x.data()[i] = stream.normal();
    for (Index i = 0; i < kPartDim * parameters.cols(); ++i) parameters.data()[i] = 0.7 * stream.normal();
    for (Index i = 0; i < y.rows(); ++i)
      for (Index j = 0; j < kPartOutputs; ++j) {
        seen(i, j) = whole_rows && j > 0 ? seen(i, 0) : static_cast<double>(stream.normal() > 0);
        y(i, j) = seen(i, j) * stream.normal();
      }
  }
  backend::LayerExamples examples() const { return {x.view(), y.view(), kPartTokens, {}, {}, seen.view()}; }
};

TEST(SeenLabels, GroupsOutputsThatMissTheSameRows) {
  EXPECT_EQ(SeenLabels(Partial(1, true).seen.view(), comm::serial()).groups().size(), 1u);
  EXPECT_EQ(SeenLabels(Partial(1, false).seen.view(), comm::serial()).groups().size(), 3u);
  const Matrix<double> ones = [] {
    Matrix<double> out(4, 2);
    std::fill_n(out.data(), 8, 1.0);
    return out;
  }();
  EXPECT_TRUE(SeenLabels(ones.view(), comm::serial()).all());
  EXPECT_TRUE(SeenLabels(MatrixView<const double>(), comm::serial()).all());
}

// W, column by column, from the rows that count alone.
TEST(SeenLabels, EveryOutputIsSolvedFromItsOwnRows) {
  for (const bool whole_rows : {false, true}) {
    const Partial p(2, whole_rows);
    const FactorProblem problem(p.examples(), p.ranks, 2);
    const auto point = problem.make_point();
    problem.evaluate(copy_of(p.parameters), 0, *point);
    ASSERT_TRUE(point->finite);
    const Matrix<double>& phi = as_activation_point(*point).phi;
    double squares = 0;
    for (Index c = 0; c < kPartOutputs; ++c) {
      Matrix<double> gram = Matrix<double>::zeros(phi.cols(), phi.cols()),
                     w = Matrix<double>::zeros(phi.cols(), 1);
      for (Index i = 0; i < phi.rows(); ++i)
        for (Index a = 0; a < phi.cols() && p.seen(i, c) != 0; ++a) {
          w(a, 0) += phi(i, a) * p.y(i, c);
          for (Index b = 0; b <= a; ++b) gram(a, b) += phi(i, a) * phi(i, b);
        }
      ASSERT_TRUE(cholesky(gram, 1).ok());
      cholesky_solve(gram, w, 1);
      for (Index a = 0; a < phi.cols(); ++a)
        EXPECT_NEAR(point->w(a, c), w(a, 0), 1e-9 * (1 + std::abs(w(a, 0))));
      for (Index i = 0; i < phi.rows(); ++i) {
        double left = p.y(i, c);
        for (Index a = 0; a < phi.cols(); ++a) left -= phi(i, a) * w(a, 0);
        squares += p.seen(i, c) * left * left;
      }
    }
    EXPECT_NEAR(point->squares, squares, 1e-9 * squares);
  }
}

// P_perp z is zero where there is no label, is left alone by P_perp, and has no part along the rows of Phi
// that count.
TEST(SeenLabels, ProjectionLeavesWhatNoReadoutExplains) {
  const Partial p(3, false);
  const FactorProblem problem(p.examples(), p.ranks, 1);
  const auto point = problem.make_point();
  problem.evaluate(copy_of(p.parameters), 0, *point);
  const auto model = problem.make_linear_model();
  model->move_to(*point);
  Stream stream(4, "projection");
  Matrix<double> z(p.y.rows(), kPartOutputs);
  for (Index i = 0; i < z.rows() * kPartOutputs; ++i) z.data()[i] = stream.normal();
  model->project(z);
  Matrix<double> again = copy_of(z);
  model->project(again);
  const Matrix<double>& phi = as_activation_point(*point).phi;
  for (Index i = 0; i < z.rows(); ++i)
    for (Index c = 0; c < kPartOutputs; ++c) {
      if (p.seen(i, c) == 0) {
        EXPECT_EQ(z(i, c), 0);
      }
      EXPECT_NEAR(again(i, c), z(i, c), 1e-10);
    }
  for (Index a = 0; a < phi.cols(); ++a)
    for (Index c = 0; c < kPartOutputs; ++c) {
      double along = 0;
      for (Index i = 0; i < z.rows(); ++i) along += phi(i, a) * z(i, c);
      EXPECT_NEAR(along, 0, 1e-9);
    }
}

// cost(p + t dp) falls by 2 t <gradient, dp> to first order.
TEST(SeenLabels, SlopeIsTheLimitOfDifferences) {
  const Partial p(5, false);
  const FactorProblem problem(p.examples(), p.ranks, 1);
  const auto point = problem.make_point(), ahead = problem.make_point(), behind = problem.make_point();
  problem.evaluate(copy_of(p.parameters), 0, *point);
  problem.linearise(*point);
  Matrix<double> gradient(kPartDim, p.ranks.parameter_columns()),
      direction(kPartDim, p.ranks.parameter_columns());
  problem.gradient(*point, gradient);
  Stream stream(6, "slope");
  for (Index i = 0; i < kPartDim * direction.cols(); ++i) direction.data()[i] = stream.normal();
  const double step = 1e-5;
  Matrix<double> high = copy_of(p.parameters), low = copy_of(p.parameters);
  add(step, direction, high);
  add(-step, direction, low);
  problem.evaluate(std::move(high), 0, *ahead);
  problem.evaluate(std::move(low), 0, *behind);
  const double slope = (ahead->squares - behind->squares) / (2 * step);
  EXPECT_NEAR(slope, -2 * inner_product(gradient, direction), 1e-5 * std::abs(slope) + 1e-6);
}

}  // namespace
}  // namespace headlens::cpu
