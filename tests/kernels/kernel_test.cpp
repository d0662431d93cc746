// Kernels of infinitely many heads: against plain loops, against random heads, and their properties.
#include "headlens/kernel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/kernels/closed_form.hpp"
#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "reference/kernel.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;
using cpu::ClosedFormKernel, cpu::TokenSource;
using testing::HasSubstr;

KernelOptions options_of(const PlainKernel& k, bool exact = false) {
  KernelOptions options;
  options.features.kind = k.kind;
  options.features.bias_scale = k.bias;
  options.features.weight_scale = k.scale;
  options.features.score = k.score;
  options.features.positions = k.positions;
  options.exact = exact;
  return options;
}

// Tokens of this size make entries up to a few hundred; the forms are good to 1e-11 of the moments.
void expect_matches_reference(const Sets& a, const Sets& b, const PlainKernel& plain, bool exact = false) {
  const Kernel cross = attention_kernel(a, b, options_of(plain, exact), {});
  ASSERT_EQ(cross.values.shape(), (std::vector<Index>{a.count(), b.count()}));
  for (Index i = 0; i < a.count(); ++i)
    for (Index j = 0; j < b.count(); ++j) {
      const double want =
          kernel_entry(plain_set(a, i, plain.positions), plain_set(b, j, plain.positions), plain);
      EXPECT_NEAR(cross.values.at(i * b.count() + j), want, 1e-11 * (1 + std::abs(want)))
          << name(plain.kind) << " " << name(plain.score) << " bias " << plain.bias << " scale "
          << plain.scale << " entry " << i << ", " << j;
    }
}

TEST(Kernel, AgreesWithPlainLoops) {
  const Sets a = ragged_sets<double>(9, 6, 3, 1), b = ragged_sets<double>(7, 40, 3, 2);
  for (const Score score : {Score::relu, Score::step, Score::exp})
    for (const double bias : {0.0, 1.0, -2.0})
      for (const double scale : {0.0, 0.1, 0.5})
        expect_matches_reference(a, b,
                                 {.bias = score == Score::exp ? 0.1 * bias : bias,
                                  .scale = score == Score::exp ? 0.3 * scale : scale,
                                  .score = score});
  for (const double bias : {0.0, 1.0, 4.0}) expect_matches_reference(a, b, {.bias = bias}, true);
  expect_matches_reference(a, b, {.bias = 1, .positions = Positions::sinusoidal});
}

TEST(Kernel, AgreesWithPlainLoopsForOtherShapes) {
  for (const Index keys : {1, 33, 600}) {
    const Sets a = equal_sets<double>(3, keys, 2, 3), b = equal_sets<double>(2, keys, 2, 4);
    for (const double bias : {0.0, 1.0}) expect_matches_reference(a, b, {.bias = bias});
  }
  const Sets a = equal_sets<double>(70, 3, 5, 3), b = equal_sets<double>(3, 3, 5, 4);
  expect_matches_reference(a, b, {.kind = ModelKind::mlp, .scale = 0.3});
  const Sets sequence = Sets::from_sequence(normal_array<double>({3, 4, 2}, 5));
  for (const Positions positions : {Positions::none, Positions::sinusoidal})
    expect_matches_reference(sequence, sequence, {.bias = 1, .positions = positions});
}

TEST(Kernel, SymmetricCaseIsTheCrossOne) {
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa, ModelKind::mlp}) {
    const Sets sets =
        kind == ModelKind::mlp ? equal_sets<double>(150, 4, 3, 6) : ragged_sets<double>(150, 9, 3, 6);
    KernelOptions options;
    options.features.kind = kind;
    const Array once = attention_kernel(sets, options, {}).values,
                twice = attention_kernel(sets, sets, options, {}).values;
    for (Index i = 0; i < 150; ++i)
      for (Index j = 0; j < 150; ++j) {
        EXPECT_EQ(once.at(i * 150 + j), once.at(j * 150 + i));
        // Tiles differ, and with them the number of terms of the series.
        EXPECT_NEAR(once.at(i * 150 + j), twice.at(i * 150 + j), 1e-11 * (1 + once.at(i * 150 + i)));
      }
  }
}

TEST(Kernel, SeriesIsWithin1e9OfOwen) {
  const Sets sets = ragged_sets<double>(40, 12, 2, 7);  // two dimensions: correlations of any size
  for (const double bias : {0.5, 1.0, 4.0}) {
    const Array fast = attention_kernel(sets, options_of({.bias = bias}), {}).values;
    const Array exact = attention_kernel(sets, options_of({.bias = bias}, true), {}).values;
    double largest = 0;
    for (Index i = 0; i < exact.size(); ++i) largest = std::max(largest, std::abs(exact.at(i)));
    for (Index i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(fast.at(i), exact.at(i), 1e-9 * std::min(1.0, largest));
  }
}

// Same bytes for any number of threads, and for any range of whole tiles.
TEST(Kernel, DoesNotDependOnThreadsOrBlocks) {
  const Sets a = ragged_sets<double>(300, 9, 3, 6), b = ragged_sets<double>(130, 20, 3, 7);
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa})
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      KernelOptions options;
      options.features.kind = kind;
      options.features.precision = precision;
      EXPECT_EQ(attention_kernel(a, options, {.threads = 1}).values.to_doubles(),
                attention_kernel(a, options, {.threads = 3}).values.to_doubles());
      EXPECT_EQ(attention_kernel(a, b, options, {.threads = 1}).values.to_doubles(),
                attention_kernel(a, b, options, {.threads = 3}).values.to_doubles());
    }
  FeatureOptions features{.kind = ModelKind::brfa, .bias_scale = 1, .weight_scale = 0.5};
  const ClosedFormKernel kernel(features, false);
  const TokenSource left(a, features.kind, features.positions, features.precision);
  const TokenSource right(b, features.kind, features.positions, features.precision);
  Matrix<double> whole(300, 130), part(300, 130);
  kernel.compute<double>(left, 0, 300, right, whole, {});
  const Index step = 128;
  for (Index first = 0; first < 300; first += step) {
    const Index count = std::min(step, 300 - first);
    kernel.compute<double>(left, first, first + count, right, part.view().block(first, 0, count, 130), {});
  }
  for (Index i = 0; i < 300; ++i)
    for (Index j = 0; j < 130; ++j) ASSERT_EQ(whole(i, j), part(i, j));
}

TEST(Kernel, SinglePrecisionRoundsTokensAndResult) {
  const Sets sets = ragged_sets<float>(40, 9, 3, 6);
  KernelOptions options;
  options.features.kind = ModelKind::brfa;
  const Array wide = attention_kernel(sets, options, {}).values;
  options.features.precision = Precision::f32;
  const Array narrow = attention_kernel(sets, options, {}).values;
  EXPECT_EQ(narrow.dtype(), DType::f32);
  for (Index i = 0; i < wide.size(); ++i)
    EXPECT_EQ(narrow.at(i), static_cast<double>(static_cast<float>(wide.at(i))));
}

// Sets that repeat and tokens that are zero, parallel or opposite: eigenvalues of 0, correlations of +-1.
Sets awkward_sets() {
  Array query(DType::f64, {24, 2}), keys(DType::f64, {24, 2, 2});
  Stream stream(8, "test-awkward");
  for (Index i = 0; i < 24; ++i)
    for (Index j = 0; j < 2; ++j) {
      const double scale = i % 4 == 0 ? 0.0 : i % 4 == 1 ? 1e3 : 1.0;
      query.data<double>()[i * 2 + j] =
          i < 12 ? scale * stream.normal() : query.data<double>()[(i - 12) * 2 + j];
      for (Index k = 0; k < 2; ++k) {
        double& x = keys.data<double>()[(i * 2 + k) * 2 + j];
        x = i < 12 ? (k == 1 ? -1 : 1) * query.data<double>()[i * 2 + j] * (i % 3)
                   : keys.data<double>()[((i - 12) * 2 + k) * 2 + j];
      }
    }
  return Sets::from_arrays(query, keys);
}

TEST(Kernel, IsPositiveSemidefiniteAndNeverNaN) {
  for (const Sets& sets : {awkward_sets(), ragged_sets<double>(60, 5, 2, 9)})
    for (const Score score : {Score::relu, Score::step})
      for (const double bias : {0.0, 1.0, 4.0, 1e9})
        for (const double scale : {0.0, 1e-200, 0.5})
          for (const bool exact : {false, true}) {
            const PlainKernel plain{.bias = bias, .scale = scale, .score = score};
            const Array k = attention_kernel(sets, options_of(plain, exact), {}).values;
            double trace = 0;
            Matrix<double> matrix(k.dim(0), k.dim(0));
            for (Index i = 0; i < k.size(); ++i) {
              ASSERT_TRUE(std::isfinite(k.at(i))) << "bias " << bias << " scale " << scale;
              matrix.data()[i] = k.at(i);
            }
            for (Index i = 0; i < k.dim(0); ++i) trace += matrix(i, i);
            const SymmetricEigen eigen = symmetric_eigen(matrix);
            ASSERT_TRUE(eigen.ok());
            EXPECT_GE(eigen.values.front(), -1e-12 * trace)
                << name(score) << " bias " << bias << " scale " << scale << " exact " << exact;
          }
}

TEST(Kernel, RefusesWhatItCannotCompute) {
  const auto error = [](auto&& call) -> std::string {
    try {
      (void)call();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const Sets sets = equal_sets<double>(5, 2, 3, 1), other = equal_sets<double>(5, 2, 4, 1);
  EXPECT_THAT(error([&] { return attention_kernel(sets, other, {}, {}); }), HasSubstr("4 coordinates"));
  KernelOptions mlp;
  mlp.features.kind = ModelKind::mlp;
  EXPECT_THAT(error([&] { return attention_kernel(ragged_sets<double>(9, 6, 3, 1), mlp, {}); }),
              HasSubstr("equal size"));
  EXPECT_THAT(error([&] { return attention_kernel(sets, equal_sets<double>(5, 3, 3, 1), mlp, {}); }),
              HasSubstr("equal size"));
  KernelOptions exponential;
  exponential.features.score = Score::exp;
  exponential.features.weight_scale = 50;
  EXPECT_THAT(error([&] { return attention_kernel(sets, exponential, {}); }), HasSubstr("overflows"));
  const Sets huge =
      Sets::from_arrays(normal_array<double>({4, 2}, 1, 1e200), normal_array<double>({4, 2, 2}, 2, 1e200));
  EXPECT_THAT(error([&] { return attention_kernel(huge, {}, {}); }), HasSubstr("overflows"));
  EXPECT_THAT(error([&] { return attention_kernel(sets, {}, {.max_memory_bytes = 100}); }),
              HasSubstr("needs"));
  KernelOptions softmax;
  softmax.features.score = Score::softmax;
  softmax.features.heads = 3;
  EXPECT_THAT(error([&] { return attention_kernel(sets, softmax, {}); }), HasSubstr("samples"));
}

}  // namespace
}  // namespace headlens
