// The moment's products against the sum over triples of tokens, and the span against planted heads.
#include "recover/spectral.hpp"
#include "linalg/vector_space.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/packing.hpp"
#include "linalg/eigen.hpp"

namespace headlens::recovery {
namespace {

// T itself, one triple at a time, from labels without their linear part (d = e).
Matrix<double> moment_by_triples(const Split& split, const Matrix<double>& y) {
  const Index d = split.train_x.cols, k = split.tokens, rows = split.train_x.rows;
  Matrix<double> t = Matrix<double>::zeros(d * d, d * d);
  for (Index a = 0; a < rows; ++a)
    for (Index b = a / k * k; b < a / k * k + k; ++b)
      for (Index c = a / k * k; c < a / k * k + k; ++c) {
        if (a == b || a == c || b == c) continue;
        for (Index p = 0; p < d; ++p)
          for (Index q = 0; q < d; ++q)
            for (Index r = 0; r < d; ++r)
              for (Index s = 0; s < d; ++s)
                t(p * d + q, r * d + s) += split.train_x(a, p) * split.train_x(c, q) * split.train_x(b, r) *
                                           y(a, s) / static_cast<double>(rows);
      }
  return t;
}

struct Plant {
  AttentionLayer layer;
  Examples examples;
  RecoverOptions options;
  Execution execution{.threads = 1};
  Effort effort{options, execution};

  Plant(Index k, Index d, Index m, Index n, double scale = 2)
      : layer(draw_teacher({.heads = m, .dim = d, .scale = scale, .seed = 1})),
        examples(draw_examples(layer, {.count = n, .tokens = k, .seed = 2}, {})) {}
};

// Singular values of T: roots of the eigenvalues of T T^T. Labels are made free of a linear part by replacing
// them with odd products of tokens, so that the reference needs no regression.
TEST(Spectral, SingularValuesAreThoseOfTheMomentOfTriples) {
  Plant p(4, 3, 2, 60);
  for (Index row = 0; row < 60 * 4; ++row)
    for (Index s = 0; s < 3; ++s) {
      const double* x = p.examples.x.data<double>();
      p.examples.y.data<double>()[row * 3 + s] =
          x[row * 3] * x[(row / 4 * 4 + (row + 1) % 4) * 3 + s] * x[(row / 4 * 4 + (row + 2) % 4) * 3 + 1];
    }
  const Split split = hold_out(p.examples);
  const HeadSpan span = head_span(split, 9, 0, p.effort);
  // The regression that head_span does, by the same least squares on [x_a, sum of others]: what is left is
  // orthogonal to it, so T of the residual is T of y less T of the fit. The fit is removed by brute force.
  Matrix<double> y(split.train_y.rows, 3), z(split.train_y.rows, 6);
  for (Index row = 0; row < y.rows(); ++row)
    for (Index j = 0; j < 3; ++j) {
      y(row, j) = split.train_y(row, j);
      z(row, j) = split.train_x(row, j);
      z(row, 3 + j) = 0;
      for (Index b = row / 4 * 4; b < row / 4 * 4 + 4; ++b)
        if (b != row) z(row, 3 + j) += split.train_x(b, j);
    }
  for (int sweep = 0; sweep < 2; ++sweep)  // Gram-Schmidt on z, then on y, twice for rounding
    for (Index c = 0; c < 6; ++c) {
      for (Index before = 0; before < c && sweep == 0; ++before) {
        double dot = 0, norm = 0;
        for (Index i = 0; i < z.rows(); ++i)
          dot += z(i, c) * z(i, before), norm += z(i, before) * z(i, before);
        for (Index i = 0; i < z.rows(); ++i) z(i, c) -= dot / norm * z(i, before);
      }
      for (Index j = 0; j < 3; ++j) {
        double dot = 0, norm = 0;
        for (Index i = 0; i < z.rows(); ++i) dot += y(i, j) * z(i, c), norm += z(i, c) * z(i, c);
        for (Index i = 0; i < z.rows(); ++i) y(i, j) -= dot / norm * z(i, c);
      }
    }
  const Matrix<double> t = moment_by_triples(split, y);
  Matrix<double> gram = Matrix<double>::zeros(9, 9);
  for (Index i = 0; i < 9; ++i)
    for (Index j = 0; j < 9; ++j)
      for (Index l = 0; l < 9; ++l) gram(i, j) += t(i, l) * t(j, l);
  const SymmetricEigen eigen = symmetric_eigen(gram.view());
  ASSERT_TRUE(eigen.ok());
  ASSERT_EQ(span.values.size(), 9u);
  // All 9 directions are asked for, so the iteration is exact; the regression's shift is 1e-10.
  for (std::size_t j = 0; j < 9; ++j)
    EXPECT_NEAR(span.values[j], std::sqrt(std::max(0.0, eigen.values[8 - j])), 1e-8 * span.values[0]);
}

TEST(Spectral, SpanHoldsTheHeadsAndItsGapCountsThem) {
  Plant p(6, 8, 3, 6000);
  const HeadSpan span = head_span(hold_out(p.examples), 8, 0, p.effort);
  EXPECT_EQ(span.count_heads(), 3);
  // Share of each true Theta in the span of the first three directions. Chance would give 3/64; the moment
  // has a bias in d and s of its own, so no share is quite one.
  const Matrix<double> truth = pack_theta(p.layer.theta);
  for (Index i = 0; i < 3; ++i) {
    double share = 0;
    for (Index j = 0; j < 3; ++j)
      share += std::pow(
          inner_product(truth.view().block(0, i * 8, 8, 8), span.theta.view().block(0, j * 8, 8, 8)), 2);
    EXPECT_GT(share / 4, 0.75) << "head " << i;  // |Theta| = 2
  }
}

TEST(Spectral, RecoversWithTheHeadsUnknown) {
  const Plant p(6, 8, 3, 3000);
  const Recovery recovery = recover(p.examples, {.start = RecoverStart::spectral}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::recovered);
  EXPECT_EQ(recovery.certificate.heads, 3);
  EXPECT_EQ(recovery.certificate.trials.front().heads, 3);
  EXPECT_LT(compare_layers(*recovery.layer, p.layer).worst_error, 1e-8);
}

TEST(Spectral, FallsBackToRandomStartsForTwoTokens) {
  const Plant p(2, 6, 1, 100);
  const Recovery recovery =
      recover(p.examples, {.heads = 1, .start = RecoverStart::spectral}, {.threads = 1});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::recovered);
  EXPECT_TRUE(recovery.certificate.moment_values.empty());
}

TEST(Spectral, DoesNotDependOnThreads) {
  Plant p(4, 6, 2, 1200);
  const Split split = hold_out(p.examples);
  const HeadSpan one = head_span(split, 5, 3, p.effort);
  const Execution two{.threads = 2};
  Effort other(p.options, two);
  const HeadSpan same = head_span(split, 5, 3, other);
  for (Index i = 0; i < 6 * 30; ++i) EXPECT_EQ(one.theta.data()[i], same.theta.data()[i]);
}

}  // namespace
}  // namespace headlens::recovery
