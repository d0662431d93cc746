// From examples to cuts and their centre, each step against what is known exactly.
#include <gtest/gtest.h>

#include <cmath>

#include "recover/sculpt/centre.hpp"
#include "recover/sculpt/repeats.hpp"
#include "recover/sculpt/sum.hpp"
#include "sculpt_plant.hpp"

namespace headlens::recovery {
namespace {

using namespace sculpting;

// With Theta = 0 attention is uniform, Y = mean of the tokens times S, and both estimates are exact.
TEST(Sculpt, SumOfProjectionsIsExactForUniformAttention) {
  for (const Index tokens : {2, 4}) {
    const Plant p = plant(draw_teacher({.heads = 2, .dim = 5, .outputs = 3, .scale = 0}), tokens, 200);
    EXPECT_LT(relative_distance(sum_of_projections(p.split, 1).s, true_sum(p.layer)), 1e-10);
  }
}

TEST(Sculpt, SumOfProjectionsIsCrudeOtherwise) {
  const Plant p = plant(draw_teacher({.heads = 2, .dim = 8, .scale = 0.5}), 4, 4000);
  EXPECT_LT(relative_distance(sum_of_projections(p.split, 1).s, true_sum(p.layer)), 0.2);
}

// Heads that are equal attend alike everywhere: lambda is the attention, scores vanish, and the true Theta
// meets every slab exactly and every half-space.
TEST(Sculpt, SlabsHoldTheCommonTheta) {
  for (const Index tokens : {2, 4}) {
    const Plant p = plant(equal_heads(draw_teacher({.heads = 3, .dim = 5, .scale = 2})), tokens, 300);
    const Agreement agreement = measure_agreement(p.split, true_sum(p.layer), 1);
    const Cuts cuts = cuts_from(p.split, agreement, 300);
    ASSERT_EQ(cuts.slabs.size(), 300u);
    EXPECT_LT(cuts.tolerance, 1e-7);
    const Vector theta = theta_of(p.layer, 0);
    Matrix<double> normals(static_cast<Index>(cuts.slabs.size()), cuts.unknowns());
    write_normals(cuts, cuts.slabs, 0, normals);
    for (Index i = 0; i < normals.rows(); ++i) {
      const Cut& cut = cuts.slabs[static_cast<std::size_t>(i)];
      EXPECT_NEAR(dot(normals.view().row(i), theta), std::sqrt(cut.weight) * cut.offset, 1e-8);
    }
    Matrix<double> halves(static_cast<Index>(cuts.half_spaces.size()), cuts.unknowns());
    ASSERT_GT(halves.rows(), 0);
    write_normals(cuts, cuts.half_spaces, 0, halves);
    for (Index i = 0; i < halves.rows(); ++i) {
      const Cut& cut = cuts.half_spaces[static_cast<std::size_t>(i)];
      EXPECT_LE(dot(halves.view().row(i), theta), std::sqrt(cut.weight) * cut.offset);
    }
  }
}

// One-hot rows of heads that differ bound every head, and sharper attention has more of them.
TEST(Sculpt, HalfSpacesHoldEveryHeadOfASharpLayer) {
  std::size_t before = 0;
  for (const double scale : {2.0, 8.0}) {
    const Plant p = plant(draw_teacher({.heads = 2, .dim = 7, .scale = scale, .seed = 1}), 2, 500);
    const Cuts cuts = cuts_from(p.split, measure_agreement(p.split, true_sum(p.layer), 1), 100);
    EXPECT_GT(cuts.half_spaces.size(), before);
    before = cuts.half_spaces.size();
    Matrix<double> halves(static_cast<Index>(before), cuts.unknowns());
    write_normals(cuts, cuts.half_spaces, 0, halves);
    Index wrong = 0;
    for (Index i = 0; i < halves.rows(); ++i)
      for (const Index head : {0, 1}) wrong += dot(halves.view().row(i), theta_of(p.layer, head)) > 0;
    EXPECT_LE(wrong, halves.rows() / 50);  // where one head's share of S is small, its attention hides
  }
}

// d = 3: 64 inputs, seen again and again. Every cut is there once, and as exact as before.
TEST(Sculpt, RepeatedCutsAreOne) {
  const Plant p = plant(equal_heads(draw_teacher({.heads = 2, .dim = 3, .scale = 2})), 2, 2000);
  const Cuts cuts = cuts_from(p.split, measure_agreement(p.split, true_sum(p.layer), 1), 1000);
  Matrix<double> normals(static_cast<Index>(cuts.slabs.size()), cuts.unknowns());
  write_normals(cuts, cuts.slabs, 0, normals);
  Index rows = 0;
  for (Index i = 0; i < normals.rows(); ++i) {
    const Cut& cut = cuts.slabs[static_cast<std::size_t>(i)];
    rows += cut.count;
    EXPECT_NEAR(dot(normals.view().row(i), theta_of(p.layer, 0)), std::sqrt(cut.weight) * cut.offset, 1e-8);
    for (Index j = 0; j < i; ++j) {
      double same = 0, turned = 0;
      for (Index l = 0; l < 9; ++l) {
        const double a = normals(i, l) / std::sqrt(cut.weight),
                     b = normals(j, l) / std::sqrt(cuts.slabs[static_cast<std::size_t>(j)].weight);
        same += std::abs(a - b), turned += std::abs(a + b);
      }
      EXPECT_GT(std::min(same, turned), 1);
    }
  }
  EXPECT_GT(rows, 10 * normals.rows());
}

// Labels of the same input, of its tokens in another order and of the input with all signs turned are
// averaged after they are brought to one form.
TEST(Sculpt, RepeatedExamplesAreAveraged) {
  const Plant p = plant(draw_teacher({.heads = 2, .dim = 2, .outputs = 3}), 2, 300);
  const DistinctExamples distinct = average_repeated(p.split);
  EXPECT_LE(distinct.split.train_x.rows, 2 * 6);  // 16 inputs, up to order and sign
  const AttentionLayer& layer = p.layer;
  for (Index first = 0; first < distinct.x.rows(); first += 2)
    for (Index a = 0; a < 2; ++a)
      for (Index c = 0; c < 3; ++c) {
        double want = 0;
        for (Index h = 0; h < 2; ++h) {
          double logit[2] = {0, 0};
          for (Index b = 0; b < 2; ++b)
            for (Index i = 0; i < 4; ++i)
              logit[b] += distinct.x(first + a, i / 2) * theta_of(layer, h)[static_cast<std::size_t>(i)] *
                          distinct.x(first + b, i % 2);
          for (Index b = 0; b < 2; ++b)
            for (Index i = 0; i < 2; ++i)
              want += distinct.x(first + b, i) * layer.w.data<double>()[(h * 2 + i) * 3 + c] /
                      (1 + std::exp(logit[1 - b] - logit[b]));
        }
        EXPECT_NEAR(distinct.y(first + a, c), want, 1e-12);
      }
  const Plant fresh = plant(draw_teacher({.heads = 2, .dim = 4}), 3, 50, Inputs::gaussian);
  EXPECT_EQ(average_repeated(fresh.split).split.train_x.rows, fresh.split.train_x.rows);
}

// Slabs at a planted point, some of them wrong, and half-spaces: the minimum is where no small step helps.
TEST(Sculpt, CentreFindsThePointOfMostCuts) {
  const Plant p = plant(equal_heads(draw_teacher({.heads = 2, .dim = 4, .scale = 3})), 3, 400);
  Cuts cuts = cuts_from(p.split, measure_agreement(p.split, true_sum(p.layer), 1), 150);
  cuts.tolerance = 0.01;
  for (std::size_t i = 0; i < cuts.slabs.size(); ++i) {
    cuts.slabs[i].weight = 1;
    if (i % 5 == 0) cuts.slabs[i].offset += i % 2 ? 4 : -7;
  }
  const RecoverOptions options{};
  const Execution execution{.threads = 1};
  const Centre centre = find_centre(cuts, Effort(options, execution));
  EXPECT_EQ(centre.cuts.slabs.size(), 120u);
  const Vector truth = theta_of(p.layer, 0);
  for (std::size_t j = 0; j < truth.size(); ++j) EXPECT_NEAR(centre.theta[j], truth[j], 1e-6);
}

TEST(Sculpt, AgreementDoesNotDependOnThreads) {
  const Plant p = plant(draw_teacher({.heads = 2, .dim = 6}), 3, 900);
  const Agreement one = measure_agreement(p.split, true_sum(p.layer), 1),
                  three = measure_agreement(p.split, true_sum(p.layer), 3);
  EXPECT_EQ(one.score, three.score);
}

TEST(Sculpt, LowestScoresLeavesOutRowsWithoutOne) {
  const AcceptedRows rows = lowest_scores({4, INFINITY, 1, 9, 1, NAN}, 3);
  EXPECT_EQ(rows.rows, (std::vector<Index>{2, 4, 0}));
  EXPECT_EQ(rows.tolerance, 2);
  EXPECT_TRUE(lowest_scores({INFINITY}, 3).rows.empty());
}

}  // namespace
}  // namespace headlens::recovery
