// Layers as they are written: what is lost on the way out of the coordinates of the search is seen, and what
// rounding does there is allowed.
#include "recover/certificate/as_written.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/factors.hpp"
#include "recover/factors/whiten.hpp"

namespace headlens::recovery {
namespace {

void scale(Array& array, double factor) {
  for (Index i = 0; i < array.size(); ++i) array.data<double>()[i] *= factor;
}

// The verdict on a certified layer that is written as `layer`, with a certificate of this held-out error.
Recovery tested(const AttentionLayer& layer, const Examples& examples, RecoveryStatus status,
                double held_out_error, double rounding = 0) {
  Recovery out;
  out.layer = out.best = layer;
  out.certificate.status = status;
  out.certificate.held_out_error = held_out_error;
  Effort effort({}, {});
  effort.rounding = rounding;
  test_as_written(examples, effort, {}, out);
  EXPECT_EQ(out.has_layer(), out.certificate.status == status);
  EXPECT_EQ(out.has_layer(), out.certificate.reason.empty());
  EXPECT_TRUE(out.best);
  return out;
}
bool is_kept(const AttentionLayer& layer, const Examples& examples, double rounding = 0) {
  return tested(layer, examples, RecoveryStatus::recovered, 1e-15, rounding).has_layer();
}

TEST(AsWritten, ALostConstantIsSeen) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5, .mask = Mask::causal, .bias = true});
  const Examples examples = draw_examples(layer, {.count = 40, .padding = true}, {});
  EXPECT_TRUE(is_kept(layer, examples));
  AttentionLayer wrong = layer;
  wrong.constant = Array(DType::f64, layer.constant.shape());
  std::copy_n(layer.constant.data<double>(), 5, wrong.constant.data<double>());
  wrong.constant.data<double>()[3] += 1e-6;
  EXPECT_FALSE(is_kept(wrong, examples));
  EXPECT_TRUE(is_kept(wrong, examples, 1e-5)) << "rounding may do as much";
}

TEST(AsWritten, NoiseIsThatOfTheCertificate) {
  const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5});
  const Examples examples = draw_examples(layer, {.count = 80, .noise = 0.1}, {});
  Recovery given;
  given.layer = layer;
  const double error = written_error(given, hold_out(examples), Effort({}, {}), {});
  EXPECT_GT(error, 0.01);
  EXPECT_TRUE(tested(layer, examples, RecoveryStatus::approximate, error).has_layer());
  EXPECT_FALSE(tested(layer, examples, RecoveryStatus::approximate, 0.9 * error).has_layer());
}

TEST(AsWritten, LabelsOfAnySizeAndMissingOnes) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 5});
  scale(layer.w, 1e-200);
  const Examples tiny = draw_examples(layer, {.count = 40}, {});
  EXPECT_TRUE(is_kept(layer, tiny));
  Array labels(DType::f64, tiny.y.shape());
  for (Index i = 0; i < labels.size(); ++i)
    labels.data<double>()[i] = i % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : tiny.y.at(i);
  const Examples partial = make_partial_examples(tiny.x, labels, {}, {});
  EXPECT_TRUE(is_kept(layer, partial));
  scale(layer.w, 1.001);
  EXPECT_FALSE(is_kept(layer, tiny));
  EXPECT_FALSE(is_kept(layer, partial));
}

// Theta of this layer is not formed.
TEST(AsWritten, LayersInFactorsAlone) {
  const Factors factors = random_factors(kLargestDenseTheta + 8, 3, 2, 2, 5, 0);
  Recovery given;
  given.factors = factored_layer(factors);
  given.certificate.status = RecoveryStatus::recovered;
  given.certificate.held_out_error = 1e-15;
  const Examples examples = draw_examples(multiply_out(*given.factors), {.count = 16, .tokens = 3}, {});
  const Effort effort({}, {});
  test_as_written(examples, effort, {}, given);
  EXPECT_TRUE(given.factors);
  scale(given.factors->k, 1.01);
  test_as_written(examples, effort, {}, given);
  EXPECT_FALSE(given.factors);
  EXPECT_EQ(given.certificate.status, RecoveryStatus::not_identified);
}

Matrix<double> normal_matrix(Index rows, Index cols, const char* name) {
  Matrix<double> out(rows, cols);
  Stream stream(41, name);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

// Layers with biases in coordinates in which V of every head has a last row: what all heads of a group make
// of the coordinate 1 belongs to the constant.
TEST(AsWritten, TheConstantHasPartsOfAllHeadsOfAGroup) {
  const Index d = 6, e = 3;
  for (const Index shared : {1, 2}) {
    Factors f = random_factors(d, e, 5, 2, 40, 0);
    std::vector<OwnHead> heads;
    for (Index i = 0; i < 4; ++i) {
      heads.push_back(own_head(f, i));
      if (i % shared == 0) continue;
      heads.back().k = copy_of(heads[static_cast<std::size_t>(i) - 1].k);
      heads.back().v = copy_of(heads[static_cast<std::size_t>(i) - 1].v);
    }
    heads.push_back({Matrix<double>(d, 0), Matrix<double>(d, 0), Matrix<double>::zeros(d, 1),
                     normal_matrix(1, e, "constant")});
    heads.back().v(d - 1, 0) = -1;
    backend::HeadRanks like = f.ranks;
    like.biased = true;
    like.shared = shared;
    f = assemble(heads, like);
    Matrix<double> x = normal_matrix(60, d, "tokens");
    for (Index i = 0; i < x.rows(); ++i) x(i, d - 1) = 1;
    const Effort effort({}, {});
    const auto outputs = [&](const Factors& of) {
      return effort.context().machine.apply_factors({.x = x.view(), .y = {}, .tokens = 6}, of.ranks,
                                                    of.values, effort.context());
    };
    const Factors bare = without_gauge(copy_of(f));
    for (Index i = 0; i < 4; ++i)
      for (Index j = 0; j < 2; ++j) {
        EXPECT_EQ(head_of(bare, i).v(d - 1, j), 0);
        EXPECT_EQ(head_of(bare, i).k(d - 1, j), 0);
      }
    Matrix<double> change = outputs(f);
    add(-1.0, outputs(bare), change);
    EXPECT_LT(squared_norm(change), 1e-24) << shared << " heads share";
  }
}

// Tokens that are nearly dependent: the same heads, written for these, predict as well but for the rounding
// that is foreseen, and that is not foreseen to be much more.
TEST(AsWritten, RoundingIsForeseen) {
  const Index k = 4, d = 6;
  for (const double smallest : {1.0, 1e-2, 1e-4, 1e-5}) {
    const Matrix<double> drawn = normal_matrix(800 * k, d, "tokens"), mix = normal_matrix(d, d, "mix");
    Matrix<double> x(800 * k, d), y = normal_matrix(800 * k, 2, "labels");
    for (Index i = 0; i < x.rows(); ++i)
      for (Index j = 0; j < d; ++j) {
        x(i, j) = 0;
        for (Index a = 0; a < d; ++a) x(i, j) += drawn(i, a) * mix(a, j) * (a == 0 ? smallest : 1);
      }
    const auto rows = [&](const Matrix<double>& of, Index first, Index count) {
      return of.view().block(first * k, 0, count * k, of.cols());
    };
    const Split split{rows(x, 0, 700), rows(y, 0, 700), rows(x, 700, 100), rows(y, 700, 100), k};
    const Whitening whitening = whiten(split, 1);
    const Split white = in_white(whitening, split);
    const Factors inner = random_factors(d, 2, 2, 2, 42, 0), outer = from_white(whitening, inner);
    const Effort effort({}, {});
    const backend::Context& on = effort.context();
    const Matrix<double> one = on.machine.apply_factors(white.held(), inner.ranks, inner.values, on);
    Matrix<double> other = on.machine.apply_factors(split.held(), outer.ranks, outer.values, on);
    add(-1.0, one, other);
    const double change = std::sqrt(squared_norm(other) / squared_norm(one)),
                 foreseen = rounding_outside(whitening, split, 0.5);
    EXPECT_LT(change, foreseen) << smallest;
    EXPECT_LT(foreseen, 1e4 * std::numeric_limits<double>::epsilon() / (smallest * smallest)) << smallest;
  }
}

// The limit without max-memory is of what was free before the recovery began, the examples included.
TEST(Effort, CountsExamplesOnce) {
  const std::uint64_t many = std::uint64_t{1} << 50;
  Effort given({}, {}, many);
  EXPECT_NO_THROW(given.reserve(1000, "the recovery"));
  EXPECT_EQ(given.reserved_bytes, many + 1000);
  Effort limited({}, {.max_memory_bytes = 1000}, 600);
  EXPECT_NO_THROW(limited.reserve(400, "the recovery"));
  limited.add_copies(100);
  EXPECT_NO_THROW(limited.reserve(300, "the recovery"));
  EXPECT_THROW(limited.reserve(301, "the recovery"), Error);
}

// What labels with noise ask for at the end of a recovery is asked for at its beginning.
TEST(Effort, IsRefusedBeforeTheSearch) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 4});
  const auto needs = [&](double noise, std::uint64_t limit, bool& began) {
    Execution execution{.threads = 1, .max_memory_bytes = limit};
    execution.progress = [&](const Progress&) { began = true; };
    const Examples examples = draw_examples(layer, {.count = 400, .noise = noise}, {});
    return recover(examples, {.heads = 1}, execution).certificate.predicted_peak_bytes;
  };
  bool began = false;
  const std::uint64_t enough = std::uint64_t{1} << 40, all = needs(0.01, enough, began);
  EXPECT_TRUE(began);
  ASSERT_LT(needs(0, enough, began), all);
  began = false;
  EXPECT_THROW((void)needs(0.01, all - 1, began), Error);
  EXPECT_FALSE(began);
  EXPECT_EQ(needs(0.01, all, began), all);
}

// Examples in other units are copies.
TEST(Effort, ForeseesCopiesOfExamples) {
  const AttentionLayer layer = draw_teacher({.heads = 1, .dim = 4});
  const Examples examples = draw_examples(layer, {.count = 100}, {});
  Examples larger = examples;
  larger.x = Array(DType::f64, examples.x.shape());
  std::copy_n(examples.x.data<double>(), examples.x.size(), larger.x.data<double>());
  scale(larger.x, 1024);
  const auto foreseen = [](const Examples& of) {
    return recover(of, {.heads = 1}, {}).certificate.predicted_peak_bytes;
  };
  EXPECT_EQ(foreseen(larger), foreseen(examples) + examples.x.bytes());
}

}  // namespace
}  // namespace headlens::recovery
