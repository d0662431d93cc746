// The layer in factors against the obvious loops, and its derivatives against each other and against finite
// differences, over ranks that differ from head to head (rank 0 is a plain mean).
#include "cpu/layer/factor_problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "base/random.hpp"
#include "cpu/layer/factor_curvature.hpp"
#include "cpu/layer/factor_descent.hpp"
#include "cpu/layer/factor_map.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

Matrix<double> drawn_matrix(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

struct FactorCase {
  Index examples, tokens, dim, outputs;
  backend::HeadRanks ranks;
  std::vector<Index> lengths = {};
};

std::vector<FactorCase> factor_cases() {
  return {{3, 2, 1, 1, {{1}, {1}}},
          {5, 4, 6, 3, {{2, 3}, {1, 4}}},
          {40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}},
          {21, 3, 9, 2, {{4, 4, 4, 4}, {2, 2, 2, 2}}},
          {20, 6, 5, 3, {{2, 3}, {1, 4}, true}},
          {20, 4, 5, 3, {{2, 3, 0}, {2, 2, 1}, true, true}},
          {6, 5, 5, 3, {{4, 4}, {2, 3}, true, false, Rotary{100, RotaryLayout::half, 1}}},
          {5, 4, 5, 3, {{4, 0, 4}, {2, 3, 1}, false, false, Rotary{10, RotaryLayout::interleaved, 0.5}}},
          {7, 4, 6, 3, {{3, 3, 2, 2}, {1, 1, 2, 2}, false, false, {}, 2}, {4, 2, 3, 1, 4, 2, 3}},
          {5, 5, 6, 3, {{2, 2, 2, 2, 0}, {3, 3, 1, 1, 1}, true, true, Rotary{}, 2}, {5, 2, 3, 1, 4}}};
}

struct FactorInput {
  FactorCase shape;
  Matrix<double> x, y, parameters, o;

  explicit FactorInput(const FactorCase& c, std::uint64_t seed) : shape(c) {
    Stream stream(seed, "factor problem");
    x = drawn_matrix(c.examples * c.tokens, c.dim, 1, stream);
    y = drawn_matrix(c.examples * c.tokens, c.outputs, 1, stream);
    parameters = drawn_matrix(c.dim, c.ranks.parameter_columns(), 0.7, stream);
    backend::pin(c.ranks, parameters.view());
    if (c.ranks.biased) parameters(c.dim - 1, parameters.cols() - 1) = 1;
    for (Index i = 0; i < x.rows() && c.ranks.biased; ++i) x(i, c.dim - 1) = 1;
    o = drawn_matrix(c.ranks.value_columns(), c.outputs, 0.7, stream);
  }
  backend::LayerExamples examples() const { return {x.view(), y.view(), shape.tokens, {}, shape.lengths}; }
};

// sum_b softmax_b(<Q^T x_a, K^T x_b>) V^T x_b, one head, one row, one column at a time.
Matrix<double> reference_phi(const FactorInput& p, const Matrix<double>& parameters) {
  const FactorCase& c = p.shape;
  const Index k = c.tokens;
  Matrix<double> phi = Matrix<double>::zeros(c.examples * k, c.ranks.value_columns());
  const std::vector<backend::HeadColumns> columns = backend::columns_of(c.ranks);
  const auto projected = [&](Index row, Index column) {
    double sum = 0;
    for (Index q = 0; q < c.dim; ++q) sum += p.x(row, q) * parameters(q, column);
    return sum;
  };
  for (Index example = 0; example < c.examples; ++example)
    for (const backend::HeadColumns& h : columns)
      for (Index a = 0; a < k; ++a) {
        std::vector<double> weight(static_cast<std::size_t>(k));
        double total = 0;
        const Index length = c.lengths.empty() ? k : c.lengths[static_cast<std::size_t>(example)];
        if (a >= length) continue;  // rows of padding are zero
        for (Index b = 0; b < (c.ranks.causal ? a + 1 : length); ++b) {
          double logit = 0;
          const auto query = [&](Index j) { return projected(example * k + a, h.q + j); };
          const auto key = [&](Index j) { return projected(example * k + b, h.k + j); };
          const Index pairs = c.ranks.rotary && h.logits > 0 ? c.ranks.rotary->pairs(h.logits) : 0;
          for (Index j = 0; j < pairs; ++j) {  // Re (q e^{i a f}) (k e^{i b f})^*
            const auto [one, other] = c.ranks.rotary->columns(j, h.logits);
            const std::complex<double> turn =
                std::polar(1.0, double(a - b) * c.ranks.rotary->frequency(j, h.logits));
            logit += (std::complex<double>(query(one), query(other)) * turn *
                      std::complex<double>(key(one), -key(other)))
                         .real();
          }
          for (Index j = 2 * pairs; j < h.logits; ++j) logit += query(j) * key(j);
          total += weight[static_cast<std::size_t>(b)] = std::exp(logit);
        }
        for (Index j = 0; j < h.values; ++j) {
          double sum = 0;
          for (Index b = 0; b < k; ++b)
            sum += weight[static_cast<std::size_t>(b)] / total * projected(example * k + b, h.v + j);
          phi(example * k + a, h.o + j) = sum;
        }
      }
  return phi;
}

TEST(FactorMap, AgreesWithTheObviousLoops) {
  for (const FactorCase& c : factor_cases()) {
    const FactorInput p(c, 1);
    const FactorMap<double> map(p.x.view(), c.tokens, c.ranks, c.lengths, 2);
    Matrix<double> z = map.make_activations(), attention = map.make_attention(), phi = map.make_phi();
    map.evaluate(p.parameters, z, attention, phi);
    const Matrix<double> expected = reference_phi(p, p.parameters);
    for (Index i = 0; i < phi.rows() * phi.cols(); ++i)
      EXPECT_NEAR(phi.data()[i], expected.data()[i], 1e-12 * (1 + std::abs(expected.data()[i])));
  }
}

TEST(FactorMap, DerivativeIsTheLimitOfDifferences) {
  for (const FactorCase& c : factor_cases()) {
    const FactorInput p(c, 2);
    Stream stream(3, "direction");
    const Matrix<double> direction = drawn_matrix(c.dim, c.ranks.parameter_columns(), 1, stream);
    const FactorMap<double> map(p.x.view(), c.tokens, c.ranks, c.lengths, 1);
    Matrix<double> z = map.make_activations(), attention = map.make_attention(), phi = map.make_phi(),
                   moved = map.make_phi();
    map.evaluate(p.parameters, z, attention, phi);
    map.derivative(z, attention, direction, moved);
    const double step = 1e-5;
    Matrix<double> ahead = copy_of(p.parameters), behind = copy_of(p.parameters);
    add(step, direction, ahead);
    add(-step, direction, behind);
    const Matrix<double> high = reference_phi(p, ahead), low = reference_phi(p, behind);
    for (Index i = 0; i < moved.rows() * moved.cols(); ++i)  // differences are good to step^2 and eps / step
      EXPECT_NEAR(moved.data()[i], (high.data()[i] - low.data()[i]) / (2 * step), 1e-6);
  }
}

TEST(FactorMap, AdjointBelongsToTheDerivative) {
  for (const FactorCase& c : factor_cases()) {
    const FactorInput p(c, 4);
    Stream stream(5, "adjoint");
    Matrix<double> direction = drawn_matrix(c.dim, c.ranks.parameter_columns(), 1, stream);
    backend::pin(c.ranks, direction.view());  // the adjoint has no part in what is fixed
    const FactorMap<double> map(p.x.view(), c.tokens, c.ranks, c.lengths, 2);
    Matrix<double> z = map.make_activations(), attention = map.make_attention(), phi = map.make_phi(),
                   moved = map.make_phi(), back(c.dim, c.ranks.parameter_columns());
    const Matrix<double> g = drawn_matrix(phi.rows(), phi.cols(), 1, stream);
    map.evaluate(p.parameters, z, attention, phi);
    map.derivative(z, attention, direction, moved);
    map.adjoint(z, attention, g, back);
    const double one = inner_product(moved, g), other = inner_product(direction, back);
    EXPECT_NEAR(one, other, 1e-12 * std::sqrt(squared_norm(moved) * squared_norm(g)));
  }
}

// J^T P_perp J is symmetric and does not see the gauge: (Q A, -K A^T) and V B move no label.
TEST(FactorProblem, NormalProductIsSymmetricAndBlindToTheGauge) {
  const FactorCase c{60, 5, 6, 4, {{2, 3}, {2, 3}}};
  const FactorInput p(c, 6);
  const FactorProblem problem(p.examples(), c.ranks, 2);
  const auto point = problem.make_point();
  problem.evaluate(copy_of(p.parameters), 0, *point);
  const auto model = problem.make_linear_model();
  model->move_to(*point);
  Stream stream(7, "gauge");
  const Matrix<double> a = drawn_matrix(6, c.ranks.parameter_columns(), 1, stream),
                       b = drawn_matrix(6, c.ranks.parameter_columns(), 1, stream);
  Matrix<double> ha(6, a.cols()), hb(6, a.cols()), gauge = Matrix<double>::zeros(6, a.cols()),
                                                   hg(6, a.cols());
  model->normal_product(a, ha);
  model->normal_product(b, hb);
  const double size = std::sqrt(squared_norm(ha));
  EXPECT_NEAR(inner_product(a, hb), inner_product(b, ha), 1e-10 * size);
  for (const backend::HeadColumns& h : backend::columns_of(c.ranks)) {
    const Matrix<double> turn = drawn_matrix(h.logits, h.logits, 1, stream),
                         mix = drawn_matrix(h.values, h.values, 1, stream);
    for (Index q = 0; q < 6; ++q) {
      for (Index j = 0; j < h.logits; ++j)
        for (Index l = 0; l < h.logits; ++l) {
          gauge(q, h.q + j) += p.parameters(q, h.q + l) * turn(l, j);
          gauge(q, h.k + j) -= p.parameters(q, h.k + l) * turn(j, l);
        }
      for (Index j = 0; j < h.values; ++j)
        for (Index l = 0; l < h.values; ++l) gauge(q, h.v + j) += p.parameters(q, h.v + l) * mix(l, j);
    }
  }
  model->normal_product(gauge, hg);
  EXPECT_LT(std::sqrt(squared_norm(hg)), 1e-10 * size);
}

TEST(FactorProblem, ThreadsDoNotChangeABit) {
  const FactorCase c{37, 6, 20, 9, {{3, 5, 4}, {4, 2, 6}}};
  const FactorInput p(c, 8);
  Matrix<double> gradients[2];
  for (int threads : {1, 3}) {
    const FactorProblem problem(p.examples(), c.ranks, threads);
    const auto point = problem.make_point();
    problem.evaluate(copy_of(p.parameters), 1e-6, *point);
    Matrix<double>& out = gradients[threads == 3] = Matrix<double>(c.dim, c.ranks.parameter_columns());
    problem.gradient(*point, out);
  }
  for (Index i = 0; i < gradients[0].rows() * gradients[0].cols(); ++i)
    EXPECT_EQ(gradients[0].data()[i], gradients[1].data()[i]);
}

// The preconditioner shortens conjugate gradients, and does not change where they end.
TEST(FactorProblem, StepSolvesItsEquations) {
  const FactorCase c{300, 5, 8, 8, {{3, 3}, {3, 3}}};
  FactorInput p(c, 9);
  const FactorProblem problem(p.examples(), c.ranks, 2);
  const auto point = problem.make_point();
  problem.evaluate(copy_of(p.parameters), 0, *point);
  const auto model = problem.make_linear_model();
  model->move_to(*point);
  model->refresh_preconditioner(*point);
  const double mu = 1e-3 * static_cast<double>(problem.rows());
  model->shift_preconditioner(mu);
  Matrix<double> gradient(8, c.ranks.parameter_columns()), image(8, c.ranks.parameter_columns());
  problem.gradient(*point, gradient);
  const backend::Step step = model->solve(gradient, mu, 1e-10, 400, Precision::f64, [] { return false; });
  model->normal_product(step.direction, image);
  add(mu, step.direction, image);
  add(-1.0, gradient, image);
  EXPECT_LT(std::sqrt(squared_norm(image)), 1e-8 * std::sqrt(squared_norm(gradient)));
  EXPECT_LT(step.inner, 60);  // 96 unknowns: without a preconditioner all of them
}

// One step of descent moves every parameter against the sign of its gradient by the rate: Adam's first step.
TEST(FactorDescent, FirstStepGoesAgainstTheGradient) {
  const FactorCase c{12, 4, 5, 3, {{2, 1}, {1, 2}}};
  const FactorInput p(c, 10);
  AdamDescent descent(p.examples(), c.ranks, {copy_of(p.parameters), copy_of(p.o)}, 2);
  std::vector<Index> all;
  for (Index i = 0; i < c.examples; ++i) all.push_back(i);
  const auto loss = [&](const Matrix<double>& parameters, const Matrix<double>& o) {
    const Matrix<double> phi = reference_phi(p, parameters);
    double squares = 0;
    for (Index i = 0; i < phi.rows(); ++i)
      for (Index j = 0; j < c.outputs; ++j) {
        double left = -p.y(i, j);
        for (Index b = 0; b < phi.cols(); ++b) left += phi(i, b) * o(b, j);
        squares += left * left;
      }
    return squares / squared_norm(p.y);
  };
  EXPECT_NEAR(descent.step(all, 1e-3), loss(p.parameters, p.o), 1e-5);
  const backend::FactorValues after = descent.values();
  for (Index i = 0; i < p.parameters.rows() * p.parameters.cols(); ++i) {
    Matrix<double> ahead = copy_of(p.parameters), behind = copy_of(p.parameters);
    ahead.data()[i] += 1e-4;
    behind.data()[i] -= 1e-4;
    const double slope = (loss(ahead, p.o) - loss(behind, p.o)) / 2e-4;
    if (std::abs(slope) < 1e-3) continue;  // float does not know its sign
    EXPECT_NEAR(after.parameters.data()[i] - p.parameters.data()[i], slope > 0 ? -1e-3 : 1e-3, 2e-5);
  }
}

// Adam in double, with the gradient of |F - Y|^2 / |Y|^2 by the map in double.
struct PlainAdam {
  Matrix<double> value, mean, square;
  Matrix<double> slopes;  // of every entry, the least size so far relative to the largest of its step

  explicit PlainAdam(const Matrix<double>& start)
      : value(copy_of(start)),
        mean(Matrix<double>::zeros(start.rows(), start.cols())),
        square(Matrix<double>::zeros(start.rows(), start.cols())),
        slopes(Matrix<double>::zeros(start.rows(), start.cols())) {
    for (Index i = 0; i < start.rows() * start.cols(); ++i) slopes.data()[i] = 1;
  }
  void step(int t, double rate, const Matrix<double>& gradient) {
    double largest = 0;
    for (Index i = 0; i < value.rows() * value.cols(); ++i)
      largest = std::max(largest, std::abs(gradient.data()[i]));
    for (Index i = 0; i < value.rows() * value.cols(); ++i) {
      const double g = gradient.data()[i];
      slopes.data()[i] = std::min(slopes.data()[i], std::abs(g) / largest);
      mean.data()[i] += 0.1 * (g - mean.data()[i]);
      square.data()[i] += 0.02 * (g * g - square.data()[i]);
      value.data()[i] -= rate * mean.data()[i] / (1 - std::pow(0.9, t)) /
                         (std::sqrt(square.data()[i] / (1 - std::pow(0.98, t))) + 1e-8);
    }
  }
};

struct Learned {
  std::vector<double> losses;
  Matrix<double> parameters, o;
};
Learned plain_descent(const FactorInput& p, const backend::LayerExamples& examples, int steps, double rate) {
  const FactorCase& c = p.shape;
  const FactorMap<double> map(p.x.view(), c.tokens, c.ranks, c.lengths, 1);
  PlainAdam parameters(p.parameters), o(p.o);
  Matrix<double> z = map.make_activations(), attention = map.make_attention(), phi = map.make_phi(),
                 slope = map.make_phi(), slope_o(p.o.rows(), p.o.cols()),
                 slope_parameters(c.dim, p.parameters.cols());
  Learned out;
  const double labels = squared_norm(p.y);
  for (int t = 1; t <= steps; ++t) {
    map.evaluate(parameters.value, z, attention, phi);
    Matrix<double> left = product(Trans::no, Trans::no, phi, o.value);
    add(-1.0, p.y, left);
    for (Index i = 0; i < left.rows() && examples.seen.rows > 0; ++i)
      for (Index j = 0; j < left.cols(); ++j) left(i, j) *= examples.seen(i, j);
    out.losses.push_back(squared_norm(left) / labels);
    gemm(Trans::yes, Trans::no, 2 / labels, phi, left, 0.0, slope_o.view());
    gemm(Trans::no, Trans::yes, 2 / labels, left, o.value, 0.0, slope.view());
    map.adjoint(z, attention, slope, slope_parameters);
    parameters.step(t, rate, slope_parameters);
    o.step(t, rate, slope_o);
  }
  // Entries whose slopes float does not know well are not compared.
  const auto known = [](PlainAdam& adam) {
    for (Index i = 0; i < adam.value.rows() * adam.value.cols(); ++i)
      if (adam.slopes.data()[i] < 1e-2) adam.value.data()[i] = std::nan("");
    return std::move(adam.value);
  };
  out.parameters = known(parameters);
  out.o = known(o);
  return out;
}

Learned descent_of(const FactorInput& p, const backend::LayerExamples& examples, int steps, double rate,
                   int threads) {
  AdamDescent descent(examples, p.shape.ranks, {copy_of(p.parameters), copy_of(p.o)}, threads);
  std::vector<Index> all;
  for (Index i = 0; i < p.shape.examples; ++i) all.push_back(i);
  Learned out;
  for (int t = 1; t <= steps; ++t) out.losses.push_back(descent.step(all, rate));
  backend::FactorValues values = descent.values();
  out.parameters = std::move(values.parameters);
  out.o = std::move(values.o);
  return out;
}

// Shapes of several blocks, and labels of which some are missing.
std::vector<FactorCase> descent_cases() {
  std::vector<FactorCase> out = factor_cases();
  out.push_back({150, 5, 6, 3, {{2, 3}, {1, 4}}});
  out.push_back({33, 17, 9, 4, {{5, 5}, {3, 3}, true}});
  FactorCase padded{60, 9, 6, 3, {{3, 3, 2, 2}, {1, 1, 2, 2}, false, false, {}, 2}};
  for (Index i = 0; i < padded.examples; ++i) padded.lengths.push_back(1 + i % 9);
  out.push_back(padded);
  return out;
}

// Slopes are good to some 1e-6 of the largest, so steps of entries with a slope of 1e-2 of it to 1e-3.
TEST(FactorDescent, TakesTheStepsOfAdamInDouble) {
  constexpr int kSteps = 3;
  constexpr double kRate = 1e-3;
  for (const FactorCase& c : descent_cases())
    for (const bool partial : {false, true}) {
      FactorInput p(c, 11);
      Matrix<double> seen(p.y.rows(), p.y.cols());
      for (Index i = 0; i < seen.rows() * seen.cols(); ++i) {
        seen.data()[i] = i % 3 == 0 ? 0 : 1;
        if (partial) p.y.data()[i] *= seen.data()[i];
      }
      backend::LayerExamples examples = p.examples();
      if (partial) examples.seen = seen.view();
      const Learned expected = plain_descent(p, examples, kSteps, kRate),
                    found = descent_of(p, examples, kSteps, kRate, 2);
      for (std::size_t t = 0; t < kSteps; ++t)
        EXPECT_NEAR(found.losses[t], expected.losses[t], 1e-5 * (1 + expected.losses[t]));
      const auto compare = [&](const Matrix<double>& a, const Matrix<double>& b) {
        for (Index i = 0; i < a.rows() * a.cols(); ++i)
          if (!std::isnan(b.data()[i])) {
            EXPECT_NEAR(a.data()[i], b.data()[i], 1e-3 * kSteps * kRate + 1e-6);
          }
      };
      compare(found.parameters, expected.parameters);
      compare(found.o, expected.o);
    }
}

TEST(FactorDescent, ThreadsDoNotChangeABit) {
  for (const FactorCase& c : descent_cases()) {
    const FactorInput p(c, 12);
    const Learned one = descent_of(p, p.examples(), 3, 1e-2, 1);
    for (const int threads : {2, 5}) {
      const Learned other = descent_of(p, p.examples(), 3, 1e-2, threads);
      EXPECT_EQ(one.losses, other.losses);
      for (Index i = 0; i < one.parameters.rows() * one.parameters.cols(); ++i)
        ASSERT_EQ(one.parameters.data()[i], other.parameters.data()[i]);
      for (Index i = 0; i < one.o.rows() * one.o.cols(); ++i) ASSERT_EQ(one.o.data()[i], other.o.data()[i]);
    }
  }
}

}  // namespace
}  // namespace headlens::cpu
