// The layer and its derivatives against the formulas, one token pair at a time.
#include "attention/attention_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"

namespace headlens {
namespace {

// F of one row of one example, straight from the definition.
std::vector<double> reference_row(const AttentionLayer& layer, const double* x, Index k, Index a) {
  const Index d = layer.dim(), e = layer.outputs();
  std::vector<double> out(static_cast<std::size_t>(e), 0.0);
  for (Index i = 0; i < layer.heads(); ++i) {
    std::vector<double> weight(static_cast<std::size_t>(k));
    double total = 0, highest = -std::numeric_limits<double>::infinity();
    for (Index b = 0; b < k; ++b) {
      double logit = 0;
      for (Index p = 0; p < d; ++p)
        for (Index q = 0; q < d; ++q)
          logit += x[a * d + p] * layer.theta.at((i * d + p) * d + q) * x[b * d + q];
      weight[static_cast<std::size_t>(b)] = logit;
      highest = std::max(highest, logit);
    }
    for (double& w : weight) total += w = std::exp(w - highest);
    for (Index b = 0; b < k; ++b)
      for (Index p = 0; p < d; ++p)
        for (Index c = 0; c < e; ++c)
          out[static_cast<std::size_t>(c)] +=
              weight[static_cast<std::size_t>(b)] / total * x[b * d + p] * layer.w.at((i * d + p) * e + c);
  }
  return out;
}

struct Shape {
  Index n, k, d, m, e;
};
constexpr Shape kShapes[] = {{1, 2, 1, 1, 1}, {7, 3, 4, 2, 3}, {130, 5, 6, 3, 6}, {4, 9, 17, 5, 2}};

TEST(Layer, EqualsItsDefinition) {
  for (const Shape s : kShapes)
    for (const double scale : {0.0, 1.0, 300.0}) {
      const AttentionLayer layer =
          draw_teacher({.heads = s.m, .dim = s.d, .outputs = s.e, .scale = scale, .seed = 3});
      const Examples examples =
          draw_examples(layer, {.count = s.n, .tokens = s.k, .inputs = Inputs::gaussian}, {});
      for (Index i = 0; i < s.n; ++i)
        for (Index a = 0; a < s.k; ++a) {
          const auto want = reference_row(layer, examples.x.data<double>() + i * s.k * s.d, s.k, a);
          for (Index c = 0; c < s.e; ++c)
            // Logits of size ~scale carry an error of d^2 eps scale, which the softmax passes on.
            EXPECT_NEAR(examples.y.at((i * s.k + a) * s.e + c), want[static_cast<std::size_t>(c)],
                        1e-13 * (1 + scale) * static_cast<double>(s.d));
        }
    }
}

TEST(Layer, DoesNotDependOnThreads) {
  const AttentionLayer layer = draw_teacher({.heads = 3, .dim = 6});
  const Examples one = draw_examples(layer, {.count = 900, .tokens = 4}, {.threads = 1});
  const Examples three = draw_examples(layer, {.count = 900, .tokens = 4}, {.threads = 3});
  EXPECT_EQ(one.y.to_doubles(), three.y.to_doubles());
}

Matrix<double> random_matrix(Index rows, Index cols, std::uint64_t seed, double scale = 1) {
  Matrix<double> out(rows, cols);
  Stream stream(seed, "test");
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = scale * stream.normal();
  return out;
}

double inner(const Matrix<double>& a, const Matrix<double>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows() * a.cols(); ++i) sum += a.data()[i] * b.data()[i];
  return sum;
}

constexpr Index kOutputs = 3;

// F (n k, e) = Phi W, entry by entry.
Matrix<double> outputs(const Matrix<double>& phi, const Matrix<double>& w) {
  Matrix<double> out = Matrix<double>::zeros(phi.rows(), w.cols());
  for (Index i = 0; i < phi.rows(); ++i)
    for (Index j = 0; j < phi.cols(); ++j)
      for (Index c = 0; c < w.cols(); ++c) out(i, c) += phi(i, j) * w(j, c);
  return out;
}

// Central differences with step h have error h^2 |third derivative| + eps / h: about 1e-9 here.
TEST(AttentionMap, DerivativeIsTheLimitOfDifferences) {
  for (const Shape s : kShapes) {
    const Matrix<double> x = random_matrix(s.n * s.k, s.d, 1),
                         direction = random_matrix(s.d, s.m * s.d, 2, 1.0 / static_cast<double>(s.d)),
                         w = random_matrix(s.m * s.d, kOutputs, 4);
    Matrix<double> theta = random_matrix(s.d, s.m * s.d, 3, 1.0 / static_cast<double>(s.d));
    const AttentionMap<double> map(x, s.k, s.m, 2);
    Matrix<double> p(s.n * s.k * s.m, s.k), q(s.n * s.k * s.m, s.k), phi(s.n * s.k, s.m * s.d),
        vt(s.n * kOutputs, s.m * s.k), v(s.n * s.k * s.m, kOutputs), slope(s.n * s.k, kOutputs);
    map.evaluate(theta, p, phi);
    map.values(w, vt);
    untranspose_values<double>(vt, kOutputs, v);
    map.derivative(p, v, direction, slope);
    const double h = 1e-5;
    const auto move = [&](double by) {
      for (Index i = 0; i < theta.rows() * theta.cols(); ++i) theta.data()[i] += by * direction.data()[i];
      map.evaluate(theta, q, phi);
      return outputs(phi, w);
    };
    const Matrix<double> up = move(h), down = move(-2 * h);
    double worst = 0;
    for (Index i = 0; i < slope.rows() * slope.cols(); ++i)
      worst = std::max(worst, std::abs(slope.data()[i] - (up.data()[i] - down.data()[i]) / (2 * h)));
    EXPECT_LT(worst, 1e-7) << "d = " << s.d;
  }
}

// <G, J v> = <J^T G, v> up to rounding.
TEST(AttentionMap, AdjointIsTheTransposeAndIndependentOfThreads) {
  for (const Shape s : kShapes) {
    const Matrix<double> x = random_matrix(s.n * s.k, s.d, 1), theta = random_matrix(s.d, s.m * s.d, 2),
                         v = random_matrix(s.d, s.m * s.d, 3), g = random_matrix(s.n * s.k, kOutputs, 4),
                         w = random_matrix(s.m * s.d, kOutputs, 5);
    Matrix<double> p(s.n * s.k * s.m, s.k), phi(s.n * s.k, s.m * s.d), vt(s.n * kOutputs, s.m * s.k),
        values(s.n * s.k * s.m, kOutputs), jv(s.n * s.k, kOutputs), jtg(s.d, s.m * s.d),
        again(s.d, s.m * s.d);
    const AttentionMap<double> map(x, s.k, s.m, 1);
    map.evaluate(theta, p, phi);
    map.values(w, vt);
    untranspose_values<double>(vt, kOutputs, values);
    map.derivative(p, values, v, jv);
    map.adjoint(p, vt, g, jtg);
    const double scale = std::sqrt(inner(g, g) * inner(jv, jv));
    EXPECT_NEAR(inner(g, jv), inner(jtg, v), 1e-12 * (scale + 1));
    AttentionMap<double>(x, s.k, s.m, 3).adjoint(p, vt, g, again);
    for (Index i = 0; i < again.rows() * again.cols(); ++i) ASSERT_EQ(again.data()[i], jtg.data()[i]);
  }
}

AttentionLayer reorder(const AttentionLayer& layer, const std::vector<Index>& order) {
  std::vector<double> theta, w;
  const Index t = layer.dim() * layer.dim(), v = layer.dim() * layer.outputs();
  for (const Index i : order) {
    theta.insert(theta.end(), layer.theta.data<double>() + i * t, layer.theta.data<double>() + (i + 1) * t);
    w.insert(w.end(), layer.w.data<double>() + i * v, layer.w.data<double>() + (i + 1) * v);
  }
  const auto m = static_cast<Index>(order.size());
  return {Array::from(theta, {m, layer.dim(), layer.dim()}),
          Array::from(w, {m, layer.dim(), layer.outputs()})};
}

TEST(Matching, IgnoresTheOrderOfHeads) {
  const AttentionLayer layer = draw_teacher({.heads = 5, .dim = 4, .outputs = 2});
  const Comparison same = compare_layers(reorder(layer, {3, 0, 4, 2, 1}), layer);
  EXPECT_EQ(same.worst_error, 0);
  EXPECT_EQ(same.matches[0].b, 3);
  AttentionLayer other = layer;
  other.theta = Array::from(layer.theta.to_doubles(), layer.theta.shape());
  other.theta.data<double>()[17] += 0.01;
  EXPECT_NEAR(compare_layers(other, layer).worst_theta_error, 0.01 / 2, 1e-12);  // |Theta| = 2
  EXPECT_TRUE(std::isinf(compare_layers(reorder(layer, {0, 1, 2}), layer).worst_error));
}

TEST(Matching, MergesEqualHeadsAndDropsAbsentOnes) {
  AttentionLayer layer = draw_teacher({.heads = 3, .dim = 4});
  AttentionLayer twice = reorder(layer, {0, 1, 1, 2});
  const Index v = 16;
  for (Index j = 0; j < v; ++j)
    twice.w.data<double>()[v + j] *= 0.25, twice.w.data<double>()[2 * v + j] *= 0.75;
  EXPECT_EQ(canonical(twice).heads(), 3);
  EXPECT_LT(compare_layers(twice, layer).worst_error, 1e-15);
  for (Index j = 0; j < v; ++j) layer.w.data<double>()[v + j] = 0;
  EXPECT_EQ(canonical(layer).heads(), 2);
}

TEST(Teacher, HasItsScaleAndRank) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 6, .scale = 3, .rank = 1});
  double square = 0;
  for (Index j = 0; j < 36; ++j) square += std::pow(layer.theta.at(j), 2);
  EXPECT_NEAR(std::sqrt(square), 3, 1e-12);
  // Rank one: every 2 x 2 minor vanishes.
  for (Index i = 1; i < 6; ++i)
    for (Index j = 1; j < 6; ++j)
      EXPECT_NEAR(layer.theta.at(0) * layer.theta.at(i * 6 + j), layer.theta.at(i * 6) * layer.theta.at(j),
                  1e-12);
  EXPECT_THROW(draw_teacher({.dim = 4, .rank = 5}), Error);
}

TEST(Examples, AreChecked) {
  EXPECT_THROW(make_examples(Array(DType::f64, {3, 1, 2}), Array(DType::f64, {3, 1, 2})), Error);
  EXPECT_THROW(make_examples(Array(DType::f64, {3, 2, 2}), Array(DType::f64, {3, 3, 2})), Error);
  EXPECT_THROW(make_examples(Array(DType::f64, {0, 2, 2}), Array(DType::f64, {0, 2, 2})), Error);
  Array bad(DType::f64, {3, 2, 2});
  bad.data<double>()[5] = NAN;
  EXPECT_THROW(make_examples(bad, Array(DType::f64, {3, 2, 2})), Error);
}

}  // namespace
}  // namespace headlens
