// The third moment against the sum over quadruples of tokens, its factors against planted ones, and what
// moments alone reach.
#include "recover/moments.hpp"
#include "linalg/vector_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"

namespace headlens::recovery {
namespace {

struct MomentPlant {
  AttentionLayer layer;
  Examples examples;
  RecoverOptions options{.method = RecoverMethod::moments, .max_heads = 4};
  Execution execution{.threads = 1};
  Effort effort{options, execution};

  MomentPlant(Index k, Index d, Index m, Index n, double scale = 1, std::uint64_t seed = 1)
      : layer(draw_teacher({.heads = m, .dim = d, .scale = scale, .seed = seed})),
        examples(draw_examples(layer, {.count = n, .tokens = k, .seed = seed + 1}, {})) {}
};

double form(const double* x, MatrixView<const double> a, const double* y) {
  double sum = 0;
  for (Index p = 0; p < a.rows; ++p)
    for (Index q = 0; q < a.cols; ++q) sum += x[p] * a(p, q) * y[q];
  return sum;
}

TEST(Moments, ThirdMomentIsTheSumOverQuadruplesOfTokens) {
  MomentPlant p(5, 3, 2, 24);
  const Split split = hold_out(p.examples);
  const HeadSpan span = head_span(split, 4, 0, p.effort);
  const Matrix<double> y = without_linear_part(split, 1);
  const Index k = 5, d = 3, m = 3;
  const Matrix<double> third = third_moment(split, span, m, p.effort);
  for (Index r = 0; r < m; ++r)
    for (Index j = 0; j < m; ++j)
      for (Index l = 0; l < m; ++l) {
        double sum = 0, size = 0;
        for (Index a = 0; a < split.train_x.rows; ++a) {
          const Index first = a / k * k;
          for (Index b = first; b < first + k; ++b)
            for (Index c = first; c < first + k; ++c)
              for (Index e = first; e < first + k; ++e) {
                if (a == b || a == c || a == e || b == c || b == e || c == e) continue;
                const double term =
                    form(split.train_x.row(a), span.theta.view().block(0, j * d, d, d),
                         split.train_x.row(c)) *
                    form(split.train_x.row(a), span.theta.view().block(0, l * d, d, d),
                         split.train_x.row(e)) *
                    form(y.view().row(a), span.image.view().block(0, r * d, d, d), split.train_x.row(b));
                sum += term, size += std::abs(term);
              }
        }
        // Sums of k^3 terms per row, taken in another order.
        EXPECT_NEAR(third(r * m + j, l), sum / double(split.train_x.rows),
                    100 * 2.3e-16 * size / double(split.train_x.rows));
      }
}

// G_r = C D_r C^T for random C: the columns come back, up to order and sign, to the digits that the
// separation of the eigenvalues leaves.
TEST(Moments, CommonFactorsAreThePlantedOnes) {
  for (const Index m : {1, 2, 3, 5, 8}) {
    Stream stream(static_cast<std::uint64_t>(m), "factors");
    Matrix<double> c(m, m), weights(m, m), third = Matrix<double>::zeros(m * m, m);
    for (Index i = 0; i < m; ++i) {
      double square = 0;
      for (Index j = 0; j < m; ++j) c(j, i) = stream.normal(), square += c(j, i) * c(j, i);
      for (Index j = 0; j < m; ++j) c(j, i) /= std::sqrt(square), weights(i, j) = stream.normal();
    }
    for (Index r = 0; r < m; ++r)
      for (Index j = 0; j < m; ++j)
        for (Index l = 0; l < m; ++l)
          for (Index i = 0; i < m; ++i) third(r * m + j, l) += weights(i, r) * c(j, i) * c(l, i);
    const Matrix<double> found = common_factors(third, 0);
    for (Index i = 0; i < m; ++i) {
      double best = 0;
      for (Index q = 0; q < m; ++q) {
        double cosine = 0;
        for (Index j = 0; j < m; ++j) cosine += c(j, i) * found(j, q);
        best = std::max(best, std::abs(cosine));
      }
      EXPECT_GT(best, 1 - 1e-6) << m << " heads, head " << i;
    }
  }
}

// |cosine| of every true Theta with the head nearest to it. Two directions at random in 64 dimensions have
// 1/8.
double worst_cosine(const AttentionLayer& found, const AttentionLayer& truth) {
  const Matrix<double> a = pack_theta(found.theta), b = pack_theta(truth.theta);
  const Index d = truth.dim();
  double worst = 1;
  for (Index i = 0; i < truth.heads(); ++i) {
    const MatrixView<const double> own = b.view().block(0, i * d, d, d);
    double best = 0;
    for (Index j = 0; j < found.heads(); ++j) {
      const MatrixView<const double> other = a.view().block(0, j * d, d, d);
      best = std::max(best, inner_product(own, other) / std::sqrt(squared_norm(own) * squared_norm(other)));
    }
    worst = std::min(worst, best);
  }
  return worst;
}

TEST(Moments, AloneTellTheHeadsApartButDoNotRecoverThem) {
  for (const double scale : {0.5, 2.0})
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const MomentPlant p(6, 8, 2, 4000, scale, seed);
      const Recovery r = recover(p.examples, p.options, {.threads = 1});
      EXPECT_EQ(name(r.certificate.status), "not_identified");
      EXPECT_FALSE(r.layer.has_value());
      EXPECT_EQ(r.certificate.heads, 2);  // before the gap of the singular values
      EXPECT_EQ(r.certificate.inner_steps, 0);
      EXPECT_GT(worst_cosine(*r.best, p.layer), 0.75) << scale << ", seed " << seed;
      EXPECT_LT(r.certificate.held_out_error, 0.5);
      EXPECT_GT(r.certificate.held_out_error, kProof);
    }
}

// Labels whose moments vanish: a plain mean is all that is left, and nothing is certified.
TEST(Moments, OfLabelsWithoutAnyAreNoLayer) {
  MomentPlant p(4, 5, 1, 200);
  for (Index row = 0; row < 800; ++row)
    for (Index j = 0; j < 5; ++j)
      p.examples.y.data<double>()[row * 5 + j] = p.examples.x.data<double>()[row * 5 + j];
  const Recovery r = recover(p.examples, p.options, {.threads = 1});
  EXPECT_FALSE(r.layer.has_value());
  EXPECT_GT(r.certificate.held_out_error, 0.5);
}

TEST(Moments, DoNotDependOnThreads) {
  const MomentPlant p(5, 6, 3, 900);
  RecoverOptions options = p.options;
  options.heads = 3;
  const Recovery one = recover(p.examples, options, {.threads = 1}),
                 two = recover(p.examples, options, {.threads = 2});
  EXPECT_EQ(one.best->theta.to_doubles(), two.best->theta.to_doubles());
  EXPECT_EQ(one.best->w.to_doubles(), two.best->w.to_doubles());
}

TEST(Moments, NeedFourTokens) {
  const MomentPlant p(3, 4, 1, 50);
  EXPECT_THROW((void)recover(p.examples, p.options, {}), Error);
}

}  // namespace
}  // namespace headlens::recovery
