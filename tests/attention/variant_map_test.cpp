// Layers with masks, biases, rotary positions and padding: the map against the obvious loops, and its
// derivatives against each other and against finite differences.
#include "attention/variant_map.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/head_content.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"

namespace headlens {
namespace {

Matrix<double> drawn(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

struct VariantCase {
  LayerVariant variant;
  bool padded = false;
};

std::vector<VariantCase> variant_cases() {
  std::vector<VariantCase> out;
  for (const Mask mask : {Mask::none, Mask::causal})
    for (const bool bias : {false, true})
      for (const bool padded : {false, true}) {
        out.push_back({{mask, bias}, padded});
        out.push_back({{mask, bias, Rotary{100, RotaryLayout::half, 1}}, padded});
        out.push_back({{mask, bias, Rotary{50, RotaryLayout::interleaved, 0.5}}, padded});
      }
  return out;
}

struct VariantInput {
  VariantShape shape;
  std::vector<Index> lengths;
  Matrix<double> x, parameters, w;
  static constexpr Index kExamples = 60, kTokens = 5, kDim = 4, kHeads = 2, kOutputs = 3;

  explicit VariantInput(const VariantCase& c) {
    Stream stream(3, "variant input");
    shape = {c.variant, kDim, kHeads, c.variant.rotary ? 6 : 0};
    x = drawn(kExamples * kTokens, kDim, 1, stream);
    parameters = drawn(shape.rows(), shape.columns(), 0.6, stream);
    w = drawn(shape.features(), kOutputs, 1, stream);
    for (Index i = 0; i < kExamples && c.padded; ++i) lengths.push_back(1 + i % kTokens);
  }
  Index length(Index example) const {
    return lengths.empty() ? kTokens : lengths[static_cast<std::size_t>(example)];
  }
  VariantMap<double> map() const { return {x.view(), kTokens, shape, lengths, 2}; }
};

// One column of X Q_i or X K_i at a token, turned by the angle of its place.
double image(const VariantInput& in, Index example, Index token, Index first_column, Index j) {
  const Index row = example * VariantInput::kTokens + token, r = in.shape.rank;
  const auto plain = [&](Index column) {
    double sum = 0;
    for (Index q = 0; q < in.shape.dim; ++q) sum += in.x(row, q) * in.parameters(q, first_column + column);
    return sum;
  };
  const Rotary& rotary = *in.shape.variant.rotary;
  const Index turned = static_cast<Index>(rotary.share * static_cast<double>(r)) / 2 * 2;
  if (j >= turned) return plain(j);
  const bool half = rotary.layout == RotaryLayout::half;
  const Index pair = half ? j % (turned / 2) : j / 2;
  const bool second = half ? j >= turned / 2 : j % 2 == 1;
  const double angle = static_cast<double>(token) *
                       std::pow(rotary.base, -2.0 * static_cast<double>(pair) / static_cast<double>(turned));
  const double a = plain(half ? pair : 2 * pair), b = plain(half ? pair + turned / 2 : 2 * pair + 1);
  return second ? a * std::sin(angle) + b * std::cos(angle) : a * std::cos(angle) - b * std::sin(angle);
}

double logit(const VariantInput& in, Index example, Index head, Index a, Index b) {
  const Index k = VariantInput::kTokens, d = in.shape.dim, m = in.shape.heads, r = in.shape.rank;
  const auto x = [&](Index token, Index q) { return in.x(example * k + token, q); };
  double sum = 0;
  for (Index p = 0; p < d; ++p) {
    if (in.shape.variant.bias)
      sum +=
          x(b, p) * (in.shape.rotary() ? in.parameters(p, 2 * m * r + head) : in.parameters(d, head * d + p));
    for (Index q = 0; q < d && !in.shape.rotary(); ++q)
      sum += x(a, p) * in.parameters(p, head * d + q) * x(b, q);
  }
  for (Index j = 0; j < r; ++j)
    sum += image(in, example, a, head * r, j) * image(in, example, b, (m + head) * r, j);
  return sum;
}

// F, one row, one head, one token at a time.
Matrix<double> reference(const VariantInput& in) {
  const Index k = VariantInput::kTokens, d = in.shape.dim, e = VariantInput::kOutputs;
  Matrix<double> out = Matrix<double>::zeros(in.x.rows(), e);
  for (Index example = 0; example < VariantInput::kExamples; ++example)
    for (Index a = 0; a < in.length(example); ++a) {
      double* row = out.view().row(example * k + a);
      for (Index c = 0; c < e && in.shape.variant.bias; ++c) row[c] = in.w(in.shape.heads * d, c);
      const Index seen = in.shape.variant.mask == Mask::causal ? a + 1 : in.length(example);
      for (Index i = 0; i < in.shape.heads; ++i) {
        double total = 0;
        for (Index b = 0; b < seen; ++b) total += std::exp(logit(in, example, i, a, b));
        for (Index b = 0; b < seen; ++b)
          for (Index q = 0; q < d; ++q)
            for (Index c = 0; c < e; ++c)
              row[c] += std::exp(logit(in, example, i, a, b)) / total * in.x(example * k + b, q) *
                        in.w(i * d + q, c);
      }
    }
  return out;
}

TEST(VariantMap, AgreesWithTheObviousLoops) {
  for (const VariantCase& c : variant_cases()) {
    const VariantInput in(c);
    const Matrix<double> f =
        apply_variant(in.shape, in.parameters, in.w, in.x, VariantInput::kTokens, in.lengths, 2);
    const Matrix<double> expected = reference(in);
    for (Index i = 0; i < f.rows() * f.cols(); ++i)
      ASSERT_NEAR(f.data()[i], expected.data()[i], 1e-12 * (1 + std::abs(expected.data()[i])))
          << name(c.variant);
  }
}

TEST(VariantMap, DerivativesAgreeWithDifferencesAndTheirAdjoints) {
  for (const VariantCase& c : variant_cases()) {
    const VariantInput in(c);
    const VariantMap<double> map = in.map();
    Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    Matrix<double> v(in.x.rows(), in.shape.heads * VariantInput::kOutputs),
        df(in.x.rows(), VariantInput::kOutputs);
    map.evaluate(in.parameters, z, p, phi);
    map.values(in.w, v);
    Stream stream(4, "direction");
    const Matrix<double> direction = drawn(in.shape.rows(), in.shape.columns(), 1, stream),
                         g = drawn(df.rows(), df.cols(), 1, stream);
    map.derivative(z, p, v, direction, df);
    const double step = 1e-6;  // differences are good to step^2 and to eps / step
    const auto moved = [&](double sign) {
      Matrix<double> there = copy_of(in.parameters);
      add(sign * step, direction, there);
      return apply_variant(in.shape, there, in.w, in.x, VariantInput::kTokens, in.lengths, 1);
    };
    const Matrix<double> above = moved(1), below = moved(-1);
    for (Index i = 0; i < df.rows() * df.cols(); ++i)
      ASSERT_NEAR(df.data()[i], (above.data()[i] - below.data()[i]) / (2 * step), 1e-7) << name(c.variant);
    Matrix<double> back(in.shape.rows(), in.shape.columns());
    map.adjoint(z, p, v, g, back);
    const double left = inner_product(df, g), right = inner_product(direction, back);
    ASSERT_NEAR(left, right, 1e-11 * (1 + std::abs(left))) << name(c.variant);
  }
}

TEST(VariantMap, ALayerComesBackFromItsParameters) {
  for (const VariantCase& c : variant_cases()) {
    const VariantInput in(c);
    const AttentionLayer layer = unpack_layer(in.shape, in.parameters, in.w);
    EXPECT_EQ(squared_norm(pack_parameters(layer)), squared_norm(in.parameters));
    const Matrix<double> parameters = pack_parameters(layer), readout = pack_readout(layer);
    for (Index i = 0; i < parameters.rows() * parameters.cols(); ++i)
      ASSERT_EQ(parameters.data()[i], in.parameters.data()[i]);
    for (Index i = 0; i < readout.rows() * readout.cols(); ++i) ASSERT_EQ(readout.data()[i], in.w.data()[i]);
  }
}

// Scaling and turning a pair of columns changes neither the content of a head nor F; moving Q does both.
TEST(HeadContent, IsWhatNoChoiceOfFactorsChanges) {
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    VariantInput in({{Mask::causal, true, Rotary{100, layout, 1}}, false});
    const std::vector<double> before = content_of(in.shape, in.parameters, 1);
    const Matrix<double> f = reference(in);
    const auto [first, second] = in.shape.variant.rotary->columns(1, in.shape.rank);
    const double c = 1.7 * std::cos(0.4), s = 1.7 * std::sin(0.4);
    for (const bool keys : {false, true})
      for (Index q = 0; q < in.shape.dim; ++q) {
        const double size = keys ? 1 / (1.7 * 1.7) : 1;
        double &a = in.parameters(q, ((keys ? 2 : 0) + 1) * in.shape.rank + first),
               &b = in.parameters(q, ((keys ? 2 : 0) + 1) * in.shape.rank + second);
        const double turned = size * (a * c - b * s);
        b = size * (a * s + b * c);
        a = turned;
      }
    const std::vector<double> after = content_of(in.shape, in.parameters, 1);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-13);
    const Matrix<double> same = reference(in);
    for (Index i = 0; i < f.rows() * f.cols(); ++i) EXPECT_NEAR(same.data()[i], f.data()[i], 1e-12);
    Matrix<double> direction = Matrix<double>::zeros(in.shape.rows(), in.shape.columns());
    direction(0, in.shape.rank) = 1;
    EXPECT_GT(norm_of(content_change(in.shape, in.parameters, direction, 1)), 0.1);
  }
}

TEST(Variants, ReadAndNameTheirOptions) {
  EXPECT_EQ(name(read_rotary("base=500,layout=interleaved,share=0.25")),
            "base=500,layout=interleaved,share=0.25");
  EXPECT_EQ(read_rotary("layout=half"), Rotary{});
  for (const Rotary& rotary : {Rotary{.base = 1e6 + 1. / 3, .share = 1. / 3}, Rotary{.base = 1234567}})
    EXPECT_EQ(read_rotary(name(rotary)), rotary) << name(rotary);
  EXPECT_EQ(name(LayerVariant{}), "plain");
  EXPECT_EQ(name(LayerVariant{Mask::causal, true, Rotary{}}),
            "causal mask, biases, rotary base=10000,layout=half");
  for (const char* wrong :
       {"", "base=1", "base=x", "layout=both", "share=0", "share=2", "half", "bass=3", "base=10,"})
    EXPECT_THROW(read_rotary(wrong), Error) << wrong;
}

}  // namespace
}  // namespace headlens
