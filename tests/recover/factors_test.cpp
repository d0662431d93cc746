// Heads in factors: the form that does not depend on the gauge, the surplus heads of descent, and recovery.
#include "recover/factors/factors.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "headlens/recover.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/challenge.hpp"
#include "recover/factors/content.hpp"
#include "recover/factors/gauge.hpp"
#include "recover/factors/groups.hpp"
#include "recover/factors/match.hpp"
#include "recover/factors/merge.hpp"
#include "recover/factors/whiten.hpp"

namespace headlens::recovery {
namespace {

AttentionLayer dense_layer(const Factors& factors) { return multiply_out(factored_layer(factors)); }

double difference(const AttentionLayer& a, const AttentionLayer& b) {
  double worst = 0;
  for (Index i = 0; i < a.theta.size(); ++i) worst = std::max(worst, std::abs(a.theta.at(i) - b.theta.at(i)));
  for (Index i = 0; i < a.w.size(); ++i) worst = std::max(worst, std::abs(a.w.at(i) - b.w.at(i)));
  return worst;
}

TEST(Factors, BalancingChangesNoHead) {
  for (const Index rank : {1, 3, 7}) {
    const Factors f = random_factors(7, 4, 3, rank, 11, 0);
    const Factors b = balanced(f);
    EXPECT_LT(difference(dense_layer(f), dense_layer(b)), 1e-14);
    for (Index i = 0; i < 3; ++i) {  // Q^T Q = K^T K, V^T V = 1
      const HeadFactors h = head_of(b, i);
      for (Index s = 0; s < h.q.cols; ++s)
        for (Index t = 0; t < h.q.cols; ++t) {
          double q = 0, k = 0;
          for (Index a = 0; a < 7; ++a) {
            q += h.q(a, s) * h.q(a, t);
            k += h.k(a, s) * h.k(a, t);
          }
          EXPECT_NEAR(q, k, 1e-14);
          if (s != t) {
            EXPECT_NEAR(q, 0, 1e-14);
          }
        }
      for (Index s = 0; s < h.v.cols; ++s)
        for (Index t = 0; t < h.v.cols; ++t) {
          double v = 0;
          for (Index a = 0; a < 7; ++a) v += h.v(a, s) * h.v(a, t);
          EXPECT_NEAR(v, s == t, 1e-14);
        }
    }
  }
}

TEST(Factors, TrimmingKeepsTheSingularValuesThatCount) {
  Factors f = random_factors(9, 9, 1, 4, 12, 0);
  for (Index a = 0; a < 9; ++a) f.values.parameters(a, 2) *= 1e-9;  // one column of Q
  const Factors trimmed = balanced(f, 1e-6, 1e-6);
  EXPECT_EQ(trimmed.ranks.logits[0], 3);
  EXPECT_EQ(trimmed.ranks.values[0], 4);
  EXPECT_LT(difference(dense_layer(f), dense_layer(trimmed)), 1e-9);
}

// |F(X) - F*(X)| / |F*(X)| on random signs.
HeldOutError error_against(const Factors& truth) {
  Stream stream(77, "tokens");
  Array x(DType::f64, {200, 5, truth.dim()});
  for (Index i = 0; i < x.size(); ++i) x.data<double>()[i] = stream.normal() < 0 ? -1 : 1;
  const Array y = apply_layer(dense_layer(truth), x, {});
  return [x, y](const Factors& factors) {
    const Array z = apply_layer(dense_layer(factors), x, {});
    double squares = 0, all = 0;
    for (Index i = 0; i < y.size(); ++i) {
      squares += (z.at(i) - y.at(i)) * (z.at(i) - y.at(i));
      all += y.at(i) * y.at(i);
    }
    return std::sqrt(squares / all);
  };
}

TEST(Factors, StudentsOnOneHeadBecomeOne) {
  const Factors truth = random_factors(12, 6, 2, 3, 13, 0);
  // Head 0 twice, its W in two parts, and a faint head of its own.
  OwnHead first = own_head(truth, 0), second = own_head(truth, 0),
          faint = own_head(random_factors(12, 6, 1, 3, 99, 0), 0);
  for (Index i = 0; i < 3 * 6; ++i) {
    first.o.data()[i] *= 0.3;
    second.o.data()[i] *= 0.7;
    faint.o.data()[i] *= 1e-3;
  }
  std::vector<OwnHead> students;
  students.push_back(std::move(first));
  students.push_back(own_head(truth, 1));
  students.push_back(std::move(second));
  students.push_back(std::move(faint));
  const Factors merged = merge_heads(assemble(students), std::nullopt, error_against(truth));
  ASSERT_EQ(merged.heads(), 2);
  EXPECT_LT(factor_distance(matched_to(truth, merged), truth), 1e-12);
}

// Fresh heads in a layer change its parameters and not one output.
TEST(Factors, SilentHeadsChangeNothing) {
  for (const Index heads : {1, 3}) {
    const Factors f = random_factors(7, 4, 2, 3, 14, 0);
    const Factors more = with_silent_heads(f, random_factors(7, 4, heads, 2, 15, 0));
    ASSERT_EQ(more.heads(), 2 + heads);
    const AttentionLayer dense = dense_layer(more), before = dense_layer(f);
    for (Index i = 0; i < before.w.size(); ++i) EXPECT_EQ(dense.w.at(i), before.w.at(i));
    for (Index i = before.w.size(); i < dense.w.size(); ++i) EXPECT_EQ(dense.w.at(i), 0);
    for (Index i = 0; i < before.theta.size(); ++i) EXPECT_EQ(dense.theta.at(i), before.theta.at(i));
    for (Index i = 2; i < 2 + heads; ++i) EXPECT_GT(theta_norm(head_of(more, i)), 0);  // and they can learn
  }
}

// Two true heads are alike (a cosine of 0.6), and the students of a third are not (0.5 or so), as descent
// leaves them. The held-out error knows which of them are one; the cosine does not.
TEST(Factors, TheErrorTellsWhichHeadsAreOne) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Factors truth = random_factors(12, 6, 3, 3, 130 + seed, 0);
    std::vector<OwnHead> heads;
    for (Index i = 0; i < 3; ++i) heads.push_back(own_head(truth, i));
    for (Index i = 0; i < 12 * 3; ++i) {
      for (OwnHead& head : heads) head.q.data()[i] *= 3;
      heads[1].k.data()[i] = heads[0].k.data()[i];
      heads[1].q.data()[i] = 0.6 * heads[0].q.data()[i] + 0.8 * heads[1].q.data()[i];
    }
    truth = assemble(heads);
    OwnHead weak = own_head(truth, 2);  // a tenth of the third head, and its Theta half wrong
    const OwnHead other = own_head(random_factors(12, 6, 1, 3, 990 + seed, 0), 0);
    for (Index i = 0; i < 12 * 3; ++i) weak.q.data()[i] = 0.5 * weak.q.data()[i] + 2.6 * other.q.data()[i];
    for (Index i = 0; i < 3 * 6; ++i) {
      heads[2].o.data()[i] *= 0.9;
      weak.o.data()[i] *= 0.1;
    }
    heads.push_back(std::move(weak));
    const Factors merged = merge_heads(assemble(heads), 3, error_against(truth));
    ASSERT_EQ(merged.heads(), 3) << seed;
    EXPECT_LT(factor_distance(matched_to(truth, merged), truth), 0.25) << seed;
    // Not told how many there are, no true head is given up.
    const Factors careful = merge_heads(assemble(heads), std::nullopt, error_against(truth));
    EXPECT_GE(careful.heads(), 3) << seed;
  }
}

TEST(Factors, GaugeIsAProjectionThatMovesNoHead) {
  const Factors f = balanced(random_factors(8, 5, 2, 3, 14, 0));
  Stream stream(15, "direction");
  Matrix<double> a(8, f.ranks.parameter_columns());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) a.data()[i] = stream.normal();
  const Matrix<double> once = gauge_part(f, a.view()), twice = gauge_part(f, once.view());
  EXPECT_GT(squared_norm(once), 1);
  for (Index i = 0; i < a.rows() * a.cols(); ++i) EXPECT_NEAR(once.data()[i], twice.data()[i], 1e-12);
  Matrix<double> rest = copy_of(a);
  add(-1.0, once, rest);
  EXPECT_NEAR(inner_product(rest, once), 0, 1e-10);
  // To first order Theta stays: (Q + t QA)(K - t KA^T)^T = Q K^T + O(t^2).
  Factors moved = copy_of(f);
  add(1e-6, once, moved.values.parameters);
  const AttentionLayer before = dense_layer(f), after = dense_layer(moved);
  for (Index i = 0; i < before.theta.size(); ++i) EXPECT_NEAR(before.theta.at(i), after.theta.at(i), 1e-10);
}

// Layers of every kind: with positions that turn some or all columns, and with heads that share keys and
// values.
std::vector<Factors> turned_and_shared() {
  std::vector<Factors> out;
  for (const bool turns : {false, true})
    for (const double share : {1.0, 0.5})
      for (const Index shared : {1, 2}) {
        if (!turns && share < 1) continue;
        Factors f = random_factors(8, 5, 4, 4, 31, 0);
        if (turns) f.ranks.rotary = Rotary{100, RotaryLayout::half, share};
        std::vector<OwnHead> heads;
        for (Index i = 0; i < 4; ++i) {
          heads.push_back(own_head(f, i));
          for (double* q = heads.back().q.data(); q != heads.back().q.data() + 32; ++q) *q *= 2;
          if (i % shared == 0) continue;
          heads.back().k = copy_of(heads[static_cast<std::size_t>(i) - 1].k);
          heads.back().v = copy_of(heads[static_cast<std::size_t>(i) - 1].v);
        }
        backend::HeadRanks like = f.ranks;
        like.shared = shared;
        out.push_back(assemble(heads, like));
      }
  return out;
}

// What a layer makes of some tokens.
Matrix<double> outputs_of(const Factors& f) {
  Stream stream(32, "tokens");
  Matrix<double> x(60, 8);
  for (Index i = 0; i < x.rows() * x.cols(); ++i) x.data()[i] = stream.normal();
  const Execution execution;
  Effort effort(RecoverOptions{}, execution);
  return effort.context().machine.apply_factors({.x = x.view(), .y = {}, .tokens = 6}, f.ranks, f.values,
                                                effort.context());
}

double apart(const Matrix<double>& a, const Matrix<double>& b) {
  double worst = 0;
  for (Index i = 0; i < a.rows() * a.cols(); ++i)
    worst = std::max(worst, std::abs(a.data()[i] - b.data()[i]));
  return worst;
}

TEST(Factors, BalancedFormsAndGaugeChangeNoOutput) {
  for (const Factors& f : turned_and_shared()) {
    const Factors b = balanced(f);
    EXPECT_EQ(b.ranks.parameter_columns(), f.ranks.parameter_columns());
    EXPECT_LT(apart(outputs_of(f), outputs_of(b)), 1e-13);
    Stream stream(33, "direction");
    Matrix<double> a(8, b.ranks.parameter_columns());
    for (Index i = 0; i < a.rows() * a.cols(); ++i) a.data()[i] = stream.normal();
    const Matrix<double> once = gauge_part(b, a.view()), twice = gauge_part(b, once.view());
    EXPECT_GT(squared_norm(once), 0.1);
    EXPECT_LT(apart(once, twice), 1e-12);
    // V B moves W = V O unless O follows; of Q and K alone the outputs stay to first order.
    Factors moved = copy_of(b);
    for (Index i = 0; i < 8; ++i)
      for (Index j = 0; j < b.ranks.logit_columns() + b.ranks.key_columns(); ++j)
        moved.values.parameters(i, j) += 1e-6 * once(i, j);
    EXPECT_LT(apart(outputs_of(b), outputs_of(moved)), 1e-9);
  }
}

// Contents of heads do not depend on the factors: |a - b|^2 from products, for a head and another gauge of
// it.
TEST(Factors, ContentsOfTurnedHeadsDoNotDependOnTheGauge) {
  for (const Factors& f : turned_and_shared()) {
    const Factors b = balanced(f);
    for (Index i = 0; i < f.heads(); ++i) {
      const HeadFactors one = head_of(f, i), other = head_of(b, i);
      EXPECT_NEAR(theta_cosine(one, other), 1, 1e-13);
      EXPECT_NEAR(theta_norm(one), theta_norm(other), 1e-12 * theta_norm(one));
      EXPECT_LT(std::abs(theta_cosine(one, head_of(b, (i + 1) % f.heads()))), 0.99);
      // The error of a content along a direction is its first-order change.
      Matrix<double> direction(8, f.ranks.parameter_columns());
      Stream stream(34, "direction", static_cast<std::uint64_t>(i));
      for (Index j = 0; j < direction.rows() * direction.cols(); ++j) direction.data()[j] = stream.normal();
      Factors moved = copy_of(f);
      add(1e-5, direction, moved.values.parameters);
      const Products change = content_error(f, direction, i);
      const double expected = 1e-5 * std::sqrt(product_of(change, change));
      const double squares = theta_product(one, one) + std::pow(theta_norm(head_of(moved, i)), 2) -
                             2 * theta_product(one, head_of(moved, i));
      EXPECT_NEAR(std::sqrt(squares), expected, 1e-3 * expected);
    }
  }
}

// Heads of groups in any order, each in a gauge of its own: made to share, they are the layer again.
TEST(Factors, HeadsOfGroupsAreFoundAndTied) {
  for (const Factors& f : turned_and_shared()) {
    if (f.ranks.shared == 1) continue;
    backend::HeadRanks alone = f.ranks;
    alone.shared = 1;
    std::vector<OwnHead> mixed;
    for (const Index i : {2, 0, 3, 1}) {
      OwnHead head = own_head(f, i);
      const double c = 0.8, s = 0.6, size = 1.5 + static_cast<double>(i);  // a complex number for every pair
      const Index pairs = head.view().pairs();
      for (Index j = 0; j < pairs; ++j) {
        const auto [one, other] = f.ranks.rotary->columns(j, 4);
        for (Matrix<double>* part : {&head.q, &head.k})
          for (Index row = 0; row < 8; ++row) {
            const double a = (*part)(row, one), b = (*part)(row, other);
            const double scale = part == &head.q ? size : 1 / size;
            (*part)(row, one) = scale * (a * c - b * s);
            (*part)(row, other) = scale * (a * s + b * c);
          }
      }
      mixed.push_back(balanced(head));
    }
    const Factors found = tied(assemble(mixed, alone), 2);
    EXPECT_EQ(found.ranks.shared, 2);
    EXPECT_LT(apart(outputs_of(found), outputs_of(f)), 1e-12);
  }
}

// Tokens of very different sizes, mixed: whitened ones have covariance one, and heads come back.
TEST(Factors, WhiteningIsUndone) {
  const Index n = 400, k = 3, d = 5;
  Stream stream(16, "tokens");
  Matrix<double> x(n * k, d), y(n * k, 2);
  for (Index i = 0; i < n * k; ++i) {
    double mix = stream.normal();
    for (Index j = 0; j < d; ++j) x(i, j) = std::pow(10.0, -double(j)) * (stream.normal() + mix);
    for (Index j = 0; j < 2; ++j) y(i, j) = stream.normal();
  }
  const Split split{x.view().block(0, 0, 350 * k, d), y.view().block(0, 0, 350 * k, 2),
                    x.view().block(350 * k, 0, 50 * k, d), y.view().block(350 * k, 0, 50 * k, 2), k};
  const Whitening whitening = whiten(split, 1);
  ASSERT_FALSE(whitening.plain);
  const Split white = in_white(whitening, split);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b) {
      double sum = 0;
      for (Index i = 0; i < white.train_x.rows; ++i) sum += white.train_x(i, a) * white.train_x(i, b);
      EXPECT_NEAR(sum / double(white.train_x.rows), a == b, 1e-9);
    }
  const Factors inner = random_factors(d, 2, 2, 2, 17, 0), outer = from_white(whitening, inner);
  RecoverOptions options;
  const Execution execution;
  Effort effort(options, execution);
  const backend::Context& on = effort.context();
  const Matrix<double> one = on.machine.apply_factors(white.held(), inner.ranks, inner.values, on),
                       other = on.machine.apply_factors(split.held(), outer.ranks, outer.values, on);
  for (Index i = 0; i < one.rows() * one.cols(); ++i) EXPECT_NEAR(one.data()[i], other.data()[i], 1e-9);
}

struct Plant {
  AttentionLayer layer;
  Examples examples;
};
Plant plant(Index d, Index m, Index rank, Index n, Index k, double noise, std::uint64_t seed) {
  TeacherOptions teacher;
  teacher.dim = d;
  teacher.heads = m;
  teacher.rank = rank;
  teacher.seed = seed;
  AttentionLayer layer = draw_teacher(teacher);
  ExampleOptions draw;
  draw.count = n;
  draw.tokens = k;
  draw.noise = noise;
  draw.seed = seed;
  Examples examples = draw_examples(layer, draw, {});
  return {std::move(layer), std::move(examples)};
}

TEST(RecoverFactors, FindsHeadsOfUnknownNumberAndRank) {
  const Plant p = plant(24, 3, 4, 400, 8, 0, 18);
  RecoverOptions options;
  options.rank = "6";  // more than there is: the surplus is trimmed
  options.max_heads = 5;
  const Recovery recovery = recover(p.examples, options, {});
  ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << recovery.certificate.reason;
  const Comparison comparison = compare_layers(*recovery.layer, p.layer);
  ASSERT_TRUE(recovery.factors);
  EXPECT_EQ(multiply_out(*recovery.factors).theta.to_doubles(), recovery.layer->theta.to_doubles());
  EXPECT_EQ(multiply_out(*recovery.factors).w.to_doubles(), recovery.layer->w.to_doubles());
  EXPECT_LT(comparison.worst_error, 1e-10);
  for (const HeadReport& head : recovery.certificate.per_head) {
    EXPECT_EQ(head.theta_rank, 4);
    EXPECT_LT(head.theta_bar, 1e-8);
    EXPECT_LT(comparison.worst_theta_error, head.theta_bar);
    EXPECT_LT(comparison.worst_w_error, head.w_bar);
  }
}

TEST(RecoverFactors, SaysThatMoreExamplesAreNeeded) {
  const Plant p = plant(24, 3, 8, 20, 8, 0, 19);  // 1.5 equations per unknown
  RecoverOptions options;
  options.heads = 3;
  options.rank = "8";
  options.starts = 1;
  const Recovery recovery = recover(p.examples, options, {});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::needs_more_examples) << recovery.certificate.reason;
  EXPECT_FALSE(recovery.layer);
  EXPECT_NE(recovery.certificate.reason.find("equations per unknown"), std::string::npos);
}

TEST(RecoverFactors, WrongRankIsNotCertified) {
  const Plant p = plant(20, 2, 8, 600, 6, 0, 20);
  RecoverOptions options;
  options.heads = 2;
  options.rank = "4";
  options.starts = 1;
  const Recovery recovery = recover(p.examples, options, {});
  EXPECT_NE(recovery.certificate.status, RecoveryStatus::recovered);
  EXPECT_FALSE(recovery.layer);
}

// Newton looks at the first examples alone; labels that are wrong further on must show all the same.
TEST(RecoverFactors, WrongLabelsInTheMiddleAreSeen) {
  Plant p = plant(20, 2, 3, 600, 5, 0, 22);
  for (Index i = 0; i < 5 * 20; ++i) p.examples.y.data<double>()[400 * 5 * 20 + i] += 1;
  RecoverOptions options;
  options.heads = 2;
  options.rank = "3";
  const Recovery recovery = recover(p.examples, options, {});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << recovery.certificate.reason;
  EXPECT_EQ(recovery.certificate.outliers.size(), 5u * 20u);
  for (const Outlier& each : recovery.certificate.outliers) EXPECT_EQ(each.example, 400);
}

// Newton stops where steps win nothing more, which is a minimum as far as noise is concerned.
TEST(RecoverFactors, NoisyLabelsGiveBarsThatCover) {
  for (const double sigma : {1e-2, 1e-4}) {
    const Plant p = plant(12, 2, 3, 150, 6, sigma, 4);
    RecoverOptions options;
    options.heads = 2;
    options.rank = "3";
    const Recovery recovery = recover(p.examples, options, {.threads = 1});
    ASSERT_EQ(recovery.certificate.status, RecoveryStatus::approximate)
        << sigma << ": " << recovery.certificate.reason;
    // 9450 equations and 288 unknowns: the standard error of the estimate is 0.7%.
    EXPECT_NEAR(*recovery.certificate.noise, sigma, 0.02 * sigma);
    const Comparison comparison = compare_layers(*recovery.layer, p.layer);
    for (const HeadReport& head : recovery.certificate.per_head) {
      EXPECT_LT(comparison.worst_theta_error, 2 * head.theta_bar);
      EXPECT_LT(comparison.worst_w_error, 2 * head.w_bar);
    }
  }
}

// A head whose attention is nearly one-hot tells something in few rows only. On ten equations per unknown the
// steps of Newton are then hard to solve, and more of the examples are taken.
TEST(RecoverFactors, AHeadWithSharpAttention) {
  Plant p = plant(24, 3, 4, 1, 2, 0, 27);
  for (Index i = 0; i < 24 * 24; ++i) p.layer.theta.data<double>()[i] *= 6;
  ExampleOptions draw;
  draw.count = 900;
  draw.tokens = 8;
  RecoverOptions options;
  options.heads = 3;
  options.rank = "4";
  const Recovery recovery = recover(draw_examples(p.layer, draw, {}), options, {});
  ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << recovery.certificate.reason;
  EXPECT_LT(compare_layers(*recovery.layer, p.layer).worst_error, 1e-9);
}

TEST(RecoverFactors, AHeadThatTakesThePlainMean) {
  TeacherOptions teacher;
  teacher.dim = 20;
  teacher.heads = 3;
  teacher.rank = 3;
  teacher.seed = 23;
  AttentionLayer layer = draw_teacher(teacher);
  std::fill_n(layer.theta.data<double>(), 20 * 20, 0.0);
  ExampleOptions draw;
  draw.count = 500;
  draw.tokens = 5;
  RecoverOptions options;
  options.heads = 3;
  options.rank = "3";
  const Recovery recovery = recover(draw_examples(layer, draw, {}), options, {});
  ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered) << recovery.certificate.reason;
  EXPECT_LT(compare_layers(*recovery.layer, layer).worst_error, 1e-8);
  EXPECT_EQ(std::count_if(recovery.certificate.per_head.begin(), recovery.certificate.per_head.end(),
                          [](const HeadReport& head) { return head.mean_pooling; }),
            1);
}

TEST(RecoverFactors, TheTimeLimitLeavesWhatWasFound) {
  const Plant p = plant(64, 4, 16, 400, 8, 0, 24);
  RecoverOptions options;
  options.heads = 4;
  options.rank = "16";
  options.time_limit_seconds = 0.5;
  const Recovery recovery = recover(p.examples, options, {});
  EXPECT_EQ(recovery.certificate.status, RecoveryStatus::stalled);
  EXPECT_FALSE(recovery.layer);
  EXPECT_FALSE(recovery.certificate.reason.empty());
  EXPECT_LT(recovery.certificate.seconds, 2.5);
}

TEST(RecoverFactors, ThreadsDoNotChangeABit) {
  const Plant p = plant(20, 2, 3, 200, 5, 0, 21);
  RecoverOptions options;
  options.heads = 2;
  options.rank = "3";
  Execution one, three;
  one.threads = 1;
  three.threads = 3;
  const Recovery a = recover(p.examples, options, one), b = recover(p.examples, options, three);
  ASSERT_TRUE(a.layer && b.layer) << a.certificate.reason;
  for (Index i = 0; i < a.layer->theta.size(); ++i) EXPECT_EQ(a.layer->theta.at(i), b.layer->theta.at(i));
}

}  // namespace
}  // namespace headlens::recovery
