// Features, scores and kernels on every back end, against the plain loops of tests/reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "headlens/kernel.hpp"
#include "reference/backends.hpp"
#include "reference/features.hpp"
#include "reference/kernel.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;

using MapContract = OnEveryBackend;

Model model_of(FeatureOptions options, const Sets& sets, Index outputs) {
  const bool mlp = options.kind == ModelKind::mlp;
  Model model;
  model.features = with_default_scales(options, sets.max_keys());
  model.dim = sets.dim();
  model.keys = mlp ? sets.max_keys() : 0;
  model.outputs = outputs;
  model.vector_targets = true;
  model.sequence = sets.is_sequence();
  model.heads = draw_heads(model.features, model.dim, model.keys, 1);
  model.values = mlp ? normal_array<double>({options.heads, outputs}, 6)
                     : normal_array<double>({options.heads, model.dim + 1, outputs}, 6);
  model.intercept = Array(DType::f64, {outputs});
  return model;
}

// The score is a sum of D^2 products and the feature a sum of N more; softmax and exp multiply the score's
// error by its size: (D^2 + N + 8) eps times the sums of absolute values, which are bounded here.
double feature_bound(const PlainSet& set, double magnitude, double epsilon) {
  const double D = double(set.query.size() + 1), N = double(set.keys.size());
  double largest = 0;
  for (const auto& key : set.keys)
    for (const double x : key) largest = std::max(largest, std::abs(x));
  return (D * D + N + 8) * epsilon * std::max(1.0, magnitude) * (1 + largest) * (1 + largest) * 4;
}

// Features against the loops, and scores against sums of these features.
void expect_features(const Sets& sets, const Model& model, const Execution& execution) {
  const bool mlp = model.features.kind == ModelKind::mlp;
  const double epsilon = model.features.precision == Precision::f32 ? std::numeric_limits<float>::epsilon()
                                                                    : std::numeric_limits<double>::epsilon();
  const Array phi = compute_features(model, sets, execution);
  const Array scores = predict_scores(model, sets, execution);
  const Index width = mlp ? 1 : model.dim + 1, columns = model.features.heads * width;
  ASSERT_EQ(phi.shape(), (std::vector<Index>{sets.count(), columns}));
  for (Index s = 0; s < sets.count(); ++s) {
    const PlainSet set = plain_set(sets, s, model.features.positions);
    for (Index m = 0; m < model.features.heads; ++m) {
      const std::vector<Real> want = mlp ? std::vector<Real>{neuron_feature(set, model.heads, m)}
                                         : head_features(set, model.heads, m, model.features.score);
      double magnitude = 0;
      for (const Real x : want) magnitude = std::max(magnitude, double(std::abs(x)));
      for (Index j = 0; j < width; ++j)
        ASSERT_NEAR(phi.at(s * columns + m * width + j), double(want[std::size_t(j)]),
                    feature_bound(set, magnitude, epsilon))
            << name(model.features.score) << " set " << s << " head " << m << " coordinate " << j;
    }
    for (Index c = 0; c < model.outputs; ++c) {
      double sum = 0, size = 0;
      for (Index j = 0; j < columns; ++j) {
        const double term = phi.at(s * columns + j) * model.values.at(j * model.outputs + c);
        sum += term, size += std::abs(term);
      }
      // Features of the same back end, so only the sum is rounded.
      ASSERT_NEAR(scores.at(s * model.outputs + c), sum, double(columns) * 0x1p-52 * size);
    }
  }
}

struct MapShape {
  Index dim, keys, heads;
};

TEST_P(MapContract, FeaturesAndScores) {
  const Execution run = execution();
  // Few keys, many, one; short tokens, long ones; heads that fill lanes and that do not.
  for (const auto [dim, keys, heads] : {MapShape{1, 1, 1},
                                        {2, 3, 16},
                                        {8, 8, 5},
                                        {13, 33, 20},
                                        {16, 16, 70},
                                        {9, 9, 1},
                                        {12, 14, 150},
                                        {31, 7, 3},
                                        {70, 20, 9},
                                        {2, 40, 300}})
    for (const Score score : {Score::relu, Score::softmax, Score::exp, Score::step}) {
      const FeatureOptions options{
          .heads = heads, .weight_scale = 0.5 / std::sqrt(double(dim)), .score = score};
      FeatureOptions single = options;
      single.precision = Precision::f32;
      const Sets a = ragged_sets<double>(14, keys, dim, 1), b = ragged_sets<float>(14, keys, dim, 2);
      expect_features(a, model_of(options, a, 1), run);
      expect_features(b, model_of(single, b, 5), run);
    }
}

TEST_P(MapContract, OtherFeatures) {
  const Execution run = execution();
  const Sets sets = ragged_sets<double>(9, 6, 4, 3), equal = equal_sets<double>(300, 3, 5, 4);
  expect_features(sets, model_of({.heads = 5, .positions = Positions::sinusoidal}, sets, 1), run);
  expect_features(sets, model_of({.kind = ModelKind::brfa, .heads = 5}, sets, 2), run);
  expect_features(equal, model_of({.kind = ModelKind::mlp, .heads = 30}, equal, 2), run);
  const Sets sequence = Sets::from_sequence(normal_array<double>({3, 5, 4}, 9));
  expect_features(sequence, model_of({.heads = 6, .positions = Positions::sinusoidal}, sequence, 1), run);
}

TEST_P(MapContract, OverflowIsAnError) {
  const Array query = normal_array<float>({3, 2}, 1, 1e30), keys = normal_array<float>({3, 4, 2}, 2, 1e30);
  const Sets sets = Sets::from_arrays(query, keys);
  const Model model = model_of({.heads = 4, .precision = Precision::f32}, sets, 1);
  EXPECT_THROW((void)predict_scores(model, sets, execution()), Error);
}

// Tokens of this size make entries up to a few hundred; the forms are good to 1e-11 of the moments.
void expect_kernel(const Sets& a, const Sets& b, const PlainKernel& plain, const Execution& run) {
  KernelOptions options;
  options.features.kind = plain.kind;
  options.features.bias_scale = plain.bias;
  options.features.weight_scale = plain.scale;
  options.features.score = plain.score;
  options.features.positions = plain.positions;
  const Kernel cross = attention_kernel(a, b, options, run), own = attention_kernel(a, options, run);
  for (Index i = 0; i < a.count(); ++i) {
    const PlainSet left = plain_set(a, i, plain.positions);
    for (Index j = 0; j < b.count(); ++j) {
      const double want = kernel_entry(left, plain_set(b, j, plain.positions), plain);
      ASSERT_NEAR(cross.values.at(i * b.count() + j), want, 1e-11 * (1 + std::abs(want)))
          << name(plain.kind) << " " << name(plain.score) << " bias " << plain.bias << " scale "
          << plain.scale;
    }
    for (Index j = 0; j < a.count(); ++j) {
      const double want = kernel_entry(left, plain_set(a, j, plain.positions), plain);
      ASSERT_NEAR(own.values.at(i * a.count() + j), want, 1e-11 * (1 + std::abs(want))) << "symmetric";
      EXPECT_EQ(own.values.at(i * a.count() + j), own.values.at(j * a.count() + i));
    }
  }
}

TEST_P(MapContract, Kernels) {
  const Execution run = execution();
  const Sets a = ragged_sets<double>(21, 6, 3, 1), b = ragged_sets<double>(7, 40, 3, 2);
  for (const Score score : {Score::relu, Score::step, Score::exp})
    for (const double bias : {0.0, 1.0, -2.0})
      for (const double scale : {0.0, 0.1, 0.5}) {
        const double share = score == Score::exp ? 0.1 : 1;
        expect_kernel(a, b, {.bias = share * bias, .scale = share * scale, .score = score}, run);
      }
  expect_kernel(a, b, {.bias = 1, .positions = Positions::sinusoidal}, run);
  const Sets wide = equal_sets<double>(5, 9, 30, 3), other = equal_sets<double>(4, 9, 30, 4);
  expect_kernel(wide, other, {.bias = 1, .scale = 0.2}, run);
  const Sets c = equal_sets<double>(40, 3, 5, 3), d = equal_sets<double>(3, 3, 5, 4);
  expect_kernel(c, d, {.kind = ModelKind::mlp, .scale = 0.3}, run);
}

double largest_difference(const Array& a, const Array& b) {
  double out = 0;
  for (Index i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a.at(i) - b.at(i)));
  return out;
}

struct FitCase {
  const char* name;
  Index sets, heads;
  std::optional<double> ridge;
  Precision precision = Precision::f64;
  Solver solver = Solver::automatic;
};

// Whole fits find what the processor finds, and the same bytes when they are repeated. The residual of the
// normal equations is at most 1e-6 (f32) or 1e-10 (f64) of their right side, which counts |K| / shift times.
TEST_P(MapContract, WholeFits) {
  const Execution run = execution();
  for (const FitCase& given :
       {FitCase{"dual", 60, 24, 1e-2}, FitCase{"primal", 200, 5, 1e-2}, FitCase{"path", 200, 5, {}},
        FitCase{"dual path", 60, 24, {}}, FitCase{"minimum norm", 40, 24, 0.0},
        FitCase{"iterative", 200, 5, 1e-2, Precision::f64, Solver::iterative},
        FitCase{"primal in float", 1500, 350, 1e-2}, FitCase{"dual in float", 1100, 400, 1e-2},
        FitCase{"single", 1500, 350, 1e-2, Precision::f32}, FitCase{"kernel", 60, kInfiniteHeads, 1e-2},
        FitCase{"kernel path", 60, kInfiniteHeads, {}}}) {
    const LabelledSets data = labelled(ragged_sets<double>(given.sets, 4, 3, 3), 4, 2);
    FitOptions options;
    options.features.heads = given.heads;
    options.features.precision = given.precision;
    options.ridge = given.ridge;
    options.solver = given.solver;
    const Fit plain = fit(data, options, {.threads = 1}), found = fit(data, options, run),
              again = fit(data, options, run);
    EXPECT_EQ(found.report.status, FitStatus::solved) << given.name;
    EXPECT_EQ(found.report.backend, GetParam());
    EXPECT_NEAR(found.report.ridge, plain.report.ridge, 1e-6 * plain.report.ridge) << given.name;
    const Array want = predict_scores(plain.model, data.sets, {.threads = 1}),
                scores = predict_scores(found.model, data.sets, run);
    double size = 0;
    for (Index i = 0; i < want.size(); ++i) size = std::max(size, std::abs(want.at(i)));
    const double unit = given.precision == Precision::f32 ? 1e-4 : 1e-7;
    EXPECT_LE(largest_difference(scores, want), unit * size) << given.name;
    EXPECT_EQ(std::memcmp(found.model.values.raw(), again.model.values.raw(), found.model.values.bytes()), 0)
        << given.name;
  }
}

TEST_P(MapContract, MemoryIsRefusedFirst) {
  Execution run = execution();
  run.max_memory_bytes = 1 << 20;
  const LabelledSets data = labelled(equal_sets<double>(400, 4, 3, 3), 4);
  FitOptions options;
  options.features.heads = 100;
  options.ridge = 1e-2;
  options.solver = Solver::dual;
  try {
    (void)fit(data, options, run);
    FAIL() << "a mebibyte was enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::memory);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MapContract, testing::ValuesIn(backend_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace headlens
