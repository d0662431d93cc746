// Heads that share keys and values: the map against the obvious loops, its derivatives against each other and
// against finite differences, and smaller layers against the matrices that they stand for.
#include "attention/tied_map.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "cpu/layer/tied_problem.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "refit/head_factors.hpp"
#include "refit/starts.hpp"

namespace headlens::refitting {
namespace {

Matrix<double> random_matrix(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

constexpr Index kExamples = 40, kTokens = 5;

struct TiedCase {
  TiedLayer layer;
  Matrix<double> x;
  std::vector<Index> lengths;

  TiedMap<double> map() const { return {x.view(), kTokens, layer.shape, lengths, 2}; }
  Index length(Index example) const {
    return lengths.empty() ? kTokens : lengths[static_cast<std::size_t>(example)];
  }
};

std::vector<TiedCase> tied_cases() {
  std::vector<TiedCase> out;
  for (const Index groups : {1, 2, 4})
    for (const Mask mask : {Mask::none, Mask::causal})
      for (const bool bias : {false, true})
        for (const bool padded : {false, true})
          for (const bool rotary : {false, true}) {
            Stream stream(7, "tied case", out.size());
            TiedCase one;
            one.layer.shape = {.rows = bias ? 7 : 6,
                               .outputs = 3,
                               .heads = 4,
                               .groups = groups,
                               .rank = 4,
                               .value_rank = 2,
                               .bias = bias,
                               .mask = mask};
            if (rotary) one.layer.shape.rotary = Rotary{100, RotaryLayout::half, 1};
            const TiedShape& s = one.layer.shape;
            one.x = random_matrix(kExamples * kTokens, s.rows, 1, stream);
            for (Index i = 0; i < one.x.rows() && bias; ++i) one.x(i, s.rows - 1) = 1;
            one.layer.parameters = random_matrix(s.rows, s.columns(), 0.6, stream);
            one.layer.readout = random_matrix(s.features(), s.outputs, 1, stream);
            for (Index i = 0; i < kExamples && padded; ++i) one.lengths.push_back(1 + i % kTokens);
            out.push_back(std::move(one));
          }
  return out;
}

// q or k of one token, turned: a sum over coordinates, then a rotation of the pair (j, j + r/2).
std::vector<double> turned_image(const TiedCase& c, Index row, Index first) {
  const TiedShape& s = c.layer.shape;
  std::vector<double> plain(4), out(4);
  for (Index j = 0; j < 4; ++j)
    for (Index i = 0; i < s.rows; ++i)
      plain[static_cast<std::size_t>(j)] += c.x(row, i) * c.layer.parameters(i, first + j);
  if (!s.rotary) return plain;
  for (std::size_t j = 0; j < 2; ++j) {
    const double angle = static_cast<double>(row % kTokens) * std::pow(100.0, -static_cast<double>(j) / 2);
    out[j] = plain[j] * std::cos(angle) - plain[j + 2] * std::sin(angle);
    out[j + 2] = plain[j] * std::sin(angle) + plain[j + 2] * std::cos(angle);
  }
  return out;
}

double by_loops(const TiedCase& c, Index example, Index token, Index output) {
  const TiedShape& s = c.layer.shape;
  const Index first = example * kTokens, seen = s.mask == Mask::causal ? token + 1 : c.length(example);
  if (token >= c.length(example)) return 0;
  double sum = s.bias ? c.layer.readout(s.features() - 1, output) : 0;
  for (Index h = 0; h < s.heads; ++h) {
    const Index group = h / (s.heads / s.groups);
    const std::vector<double> q = turned_image(c, first + token, h * 4);
    double total = 0, weighted = 0;
    for (Index b = 0; b < seen; ++b) {
      const std::vector<double> k = turned_image(c, first + b, (s.heads + group) * 4);
      double logit = 0, value = 0;
      for (std::size_t j = 0; j < 4; ++j) logit += q[j] * k[j];
      for (Index a = 0; a < 2; ++a)
        for (Index i = 0; i < s.rows; ++i)
          value += c.x(first + b, i) * c.layer.parameters(i, (s.heads + s.groups) * 4 + group * 2 + a) *
                   c.layer.readout(h * 2 + a, output);
      total += std::exp(logit);
      weighted += std::exp(logit) * value;
    }
    sum += weighted / total;
  }
  return sum;
}

TEST(TiedMap, AgreesWithTheLoops) {
  for (const TiedCase& c : tied_cases()) {
    const Matrix<double> f = apply_tied(c.layer, c.x, kTokens, c.lengths, 2);
    for (Index example = 0; example < kExamples; example += 7)
      for (Index token = 0; token < kTokens; ++token)
        for (Index output = 0; output < 3; ++output)
          ASSERT_NEAR(f(example * kTokens + token, output), by_loops(c, example, token, output), 1e-12);
  }
}

TEST(TiedMap, DerivativeIsTheLimitAndAdjointItsTranspose) {
  for (const TiedCase& c : tied_cases()) {
    const TiedMap<double> map = c.map();
    Stream stream(5, "tied direction");
    const Matrix<double>& p = c.layer.parameters;
    const Matrix<double> direction = random_matrix(p.rows(), p.cols(), 1, stream);
    Matrix<double> z = map.make_activations(), a = map.make_attention(), phi = map.make_phi(),
                   dphi = map.make_phi(), back(p.rows(), p.cols());
    map.evaluate(p, z, a, phi);
    map.derivative(z, a, direction, dphi);
    const Matrix<double> g = random_matrix(phi.rows(), phi.cols(), 1, stream);
    map.adjoint(z, a, g, back);
    const double size = std::sqrt(squared_norm(g) * squared_norm(dphi));
    EXPECT_NEAR(inner_product(back, direction), inner_product(g, dphi), 1e-13 * size);
    // Central differences: the error is h^2 / 6 of a third derivative, and eps / h.
    const double h = 1e-5;
    Matrix<double> ahead = copy_of(p), behind = copy_of(p), up = map.make_phi(), down = map.make_phi();
    add(h, direction, ahead);
    add(-h, direction, behind);
    map.evaluate(ahead, z, a, up);
    map.evaluate(behind, z, a, down);
    add(-1.0, down, up);
    add(-2 * h, dphi, up);
    EXPECT_LT(std::sqrt(squared_norm(up)) / (2 * h), 1e-7 * std::sqrt(squared_norm(dphi)));
  }
}

// O is best at every point, so that the slope of the cost has no part from it: -2 J^T residual.
TEST(TiedProblem, GradientIsTheSlopeOfTheCost) {
  for (const TiedCase& c : tied_cases()) {
    Stream stream(9, "tied labels");
    Matrix<double> y = random_matrix(c.x.rows(), 3, 1, stream);
    for (Index row = 0; row < y.rows(); ++row)
      for (Index j = 0; j < 3 && row % kTokens >= c.length(row / kTokens); ++j) y(row, j) = 0;
    const Matrix<double>& p = c.layer.parameters;
    const Matrix<double> direction = random_matrix(p.rows(), p.cols(), 1, stream);
    const cpu::TiedProblem problem({.x = c.x.view(), .y = y.view(), .tokens = kTokens, .lengths = c.lengths},
                                   c.layer.shape, 2);
    const auto point = problem.make_point();
    const auto cost = [&](double step) {
      Matrix<double> moved = copy_of(p);
      add(step, direction, moved);
      problem.evaluate(std::move(moved), 1e-6, *point);
      return point->cost;
    };
    const double h = 1e-4, slope = (cost(h) - cost(-h)) / (2 * h), size = cost(0);
    Matrix<double> gradient(p.rows(), p.cols());
    problem.linearise(*point);
    problem.gradient(*point, gradient);
    // Differences are good to h^2 and eps / h; the mean diagonal in the ridge moves the cost by 1e-6 of W.
    EXPECT_NEAR(-2 * inner_product(gradient, direction), slope, 1e-4 * size);
    // The same linear model as every other: symmetric, and its steps solve their equations.
    const auto model = problem.make_linear_model();
    model->move_to(*point);
    model->refresh_preconditioner(*point);
    model->shift_preconditioner(1e-2);
    const backend::Step step = model->solve(gradient, 1e-2, 1e-10, 400, Precision::f64, [] { return false; });
    Matrix<double> image(p.rows(), p.cols());
    model->normal_product(step.direction, image);
    add(1e-2, step.direction, image);
    add(-1.0, gradient, image);
    EXPECT_LT(std::sqrt(squared_norm(image)), 1e-6 * std::sqrt(squared_norm(gradient)));
  }
}

TiedLayer untied(Index heads) {
  Stream stream(11, "untied layer");
  TiedLayer out{
      {.rows = 8, .outputs = 5, .heads = heads, .groups = heads, .rank = 3, .value_rank = 3}, {}, {}};
  out.parameters = random_matrix(8, out.shape.columns(), 1, stream);
  out.readout = random_matrix(out.shape.features(), 5, 1, stream);
  return out;
}

Matrix<double> theta_of(const Head& head) {
  Matrix<double> out(head.q.rows(), head.k.rows());
  gemm(Trans::no, Trans::yes, 1.0, head.q.view(), head.k.view(), 0.0, out.view());
  return out;
}

TEST(Starts, TruncationKeepsTheLargestSingularValues) {
  const TiedLayer layer = untied(2), small = truncate(layer, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    Matrix<double> before = theta_of(heads_in(layer)[i]);
    const Matrix<double> after = theta_of(heads_in(small)[i]);
    const std::vector<double> values = svd(before.view()).values;
    add(-1.0, after, before);
    EXPECT_NEAR(std::sqrt(squared_norm(before)), values[2], 1e-12 * values[0]);
  }
}

TEST(Starts, PoolingAveragesAndSharingIsExactWhereItCanBe) {
  const TiedLayer layer = untied(4), pooled = pool(layer, 2);
  const std::vector<Head> before = heads_in(layer), after = heads_in(pooled);
  for (Index i = 0; i < 8; ++i)
    for (Index j = 0; j < 3; ++j) {
      EXPECT_DOUBLE_EQ(after[1].k(i, j), (before[0].k(i, j) + before[1].k(i, j)) / 2);
      EXPECT_EQ(after[3].q(i, j), before[3].q(i, j));
    }
  // Heads that share already lose nothing, whatever the basis they are given in.
  const TiedLayer again = share(assemble(after, 4, layer), 2, 3);
  for (std::size_t i = 0; i < 4; ++i) {
    Matrix<double> difference = theta_of(after[i]);
    const double size = std::sqrt(squared_norm(difference));
    add(-1.0, theta_of(heads_in(again)[i]), difference);
    EXPECT_LT(std::sqrt(squared_norm(difference)), 1e-12 * size);
  }
}

TEST(Starts, MergedTwinsAreOneHead) {
  TiedLayer layer = untied(3);
  std::vector<Head> heads = heads_in(layer);
  heads.push_back({copy_of(heads[1].q), copy_of(heads[1].k), copy_of(heads[1].v), copy_of(heads[1].o)});
  const TiedLayer merged = merge(assemble(heads, 4, layer), 3);
  Stream stream(2, "tokens");
  const Matrix<double> x = random_matrix(60, 8, 1, stream);
  Matrix<double> f = apply_tied(assemble(heads, 4, layer), x, 6, {}, 1);
  const double size = std::sqrt(squared_norm(f));
  add(-1.0, apply_tied(merged, x, 6, {}, 1), f);
  EXPECT_LT(std::sqrt(squared_norm(f)), 1e-11 * size);
}

}  // namespace
}  // namespace headlens::refitting
