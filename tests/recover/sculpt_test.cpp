// The phases of sculpting, each against what is known exactly; then all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/recover.hpp"
#include "recover/sculpt_body.hpp"
#include "recover/sculpt_centre.hpp"
#include "recover/sculpt_net.hpp"
#include "recover/sculpt_refine.hpp"
#include "recover/sculpt_repeats.hpp"
#include "recover/sculpt_span.hpp"
#include "recover/sculpt_sum.hpp"

namespace headlens {
namespace {

using Vector = std::vector<double>;

struct Plant {
  AttentionLayer layer;
  Examples examples;
  Split split;
};

Plant plant(AttentionLayer layer, Index tokens, Index count, Inputs inputs = Inputs::signs) {
  Examples examples =
      draw_examples(layer, {.count = count, .tokens = tokens, .inputs = inputs, .seed = 3}, {});
  const Split split = hold_out(examples);
  return {std::move(layer), std::move(examples), split};
}

AttentionLayer equal_heads(AttentionLayer layer) {
  const Index size = layer.dim() * layer.dim();
  for (Index i = 1; i < layer.heads(); ++i)
    std::copy_n(layer.theta.data<double>(), size, layer.theta.data<double>() + i * size);
  return layer;
}

Matrix<double> true_sum(const AttentionLayer& layer) {
  Matrix<double> s = Matrix<double>::zeros(layer.dim(), layer.outputs());
  for (Index i = 0; i < layer.w.size(); ++i)
    s.data()[i % (layer.dim() * layer.outputs())] += layer.w.data<double>()[i];
  return s;
}

Vector theta_of(const AttentionLayer& layer, Index head) {
  const Index size = layer.dim() * layer.dim();
  const double* from = layer.theta.data<double>() + head * size;
  return {from, from + size};
}

double relative_distance(const Matrix<double>& a, const Matrix<double>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows() * a.cols(); ++i) sum += std::pow(a.data()[i] - b.data()[i], 2);
  return std::sqrt(sum / squared_norm(b));
}

double dot(const double* a, const Vector& b) {
  double sum = 0;
  for (std::size_t j = 0; j < b.size(); ++j) sum += a[j] * b[j];
  return sum;
}

// |projection of unit u on the span of orthonormal rows|
double inside_span(const Matrix<double>& rows, const Vector& u) {
  double sum = 0;
  for (Index i = 0; i < rows.rows(); ++i) sum += std::pow(dot(rows.view().row(i), u), 2);
  return std::sqrt(sum);
}

const RecoverOptions kOptions{};
const Execution kExecution{.threads = 1};

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
  const Centre centre = find_centre(cuts, 1);
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

// Slabs that are exact for every point of a plane through `base`: rows whose z is orthogonal to it do not
// exist in general, so offsets are made from the base and weights fall with |<z, plane>|.
struct PlantedCuts {
  Matrix<double> x;
  Cuts cuts;
  Vector base;
  Matrix<double> plane;  // orthonormal rows
};

PlantedCuts planted_cuts(Index dimension, Index count, double tolerance) {
  const Index d = 4, size = d * d;
  PlantedCuts out{Matrix<double>(3 * count, d),
                  {},
                  Vector(static_cast<std::size_t>(size)),
                  Matrix<double>::zeros(dimension, size)};
  Stream stream(5, "test");
  for (double& b : out.base) b = 0.5 * stream.normal();
  for (Index i = 0; i < dimension; ++i) out.plane(i, 5 * i) = 1;  // entries (0,0), (1,1), ..: orthonormal
  for (Index i = 0; i < 3 * count * d; ++i) out.x.data()[i] = stream.normal();
  // x_a (x_b - x_c)^T must have no entry in the plane: tokens b and c agree in coordinate i, or x_a lacks it.
  for (Index e = 0; e < count; ++e)
    for (Index i = 0; i < dimension; ++i)
      if (stream.below(2) == 0)
        out.x(3 * e, i) = 1e-3 * stream.normal();
      else
        out.x(3 * e + 1, i) = out.x(3 * e + 2, i) + 1e-3 * stream.normal();
  out.cuts = {std::as_const(out.x).view(), 3, {}, {}, tolerance};
  for (Index e = 0; e < count; ++e) {
    Cut cut{3 * e, 1, 2, 0, 0.2 + 0.3 * stream.uniform()};
    Matrix<double> z(1, size);
    write_normals(out.cuts, {cut}, 0, z);
    cut.offset = dot(z.data(), out.base) / std::sqrt(cut.weight);
    out.cuts.slabs.push_back(cut);
  }
  return out;
}

class Bodies : public testing::TestWithParam<SculptForm> {
 protected:
  std::unique_ptr<Body> carve(const Cuts& cuts) {
    return GetParam() == SculptForm::least_squares ? carve_ellipsoid(cuts, 1)
                                                   : carve_polytope(cuts, 7, effort);
  }
  Effort effort{kOptions, kExecution};
};

TEST_P(Bodies, HoldTheHullAndShowItsDirections) {
  for (const Index dimension : {1, 2}) {
    const PlantedCuts p = planted_cuts(dimension, 200, 0.01);
    const std::unique_ptr<Body> body = carve(p.cuts);
    EXPECT_EQ(body->outliers(), 0);
    EXPECT_TRUE(body->contains(p.base));
    Vector along = p.base, across = p.base;
    along[0] += 1;   // in the plane
    across[1] += 1;  // not in the plane
    EXPECT_TRUE(body->contains(along));
    EXPECT_FALSE(body->contains(across));
    for (const SpanForm form : {SpanForm::eigenvectors, SpanForm::membership}) {
      for (const Index heads : {dimension + 1, Index{0}}) {
        const Span span = find_span(*body, heads, 6, form, 1, effort);
        ASSERT_EQ(span.heads, dimension + 1) << name(form);  // also where the gap has to tell
        EXPECT_GT(span.eigengap, 20);
        for (Index i = 0; i < dimension; ++i)
          EXPECT_GT(
              inside_span(span.directions.vectors, Vector(p.plane.view().row(i), p.plane.view().row(i) + 16)),
              0.999)
              << name(form);
      }
    }
  }
}

// The smallest point is in the body, and no shorter point on the way to 0, or to any point of the body, is.
TEST_P(Bodies, FindTheSmallestPoint) {
  const PlantedCuts p = planted_cuts(1, 200, 0.05);
  const std::unique_ptr<Body> body = carve(p.cuts);
  const Vector smallest = body->minimum_norm_point();
  EXPECT_TRUE(body->contains(smallest));
  const double square = dot(smallest.data(), smallest);
  EXPECT_LT(square, dot(p.base.data(), p.base));
  Vector shorter = smallest;
  for (double& x : shorter) x *= 0.99;
  EXPECT_FALSE(body->contains(shorter));
  // <smallest, q> >= |smallest|^2 for every q of the body; the centre and points around it stand for them.
  EXPECT_GE(dot(smallest.data(), body->inner_point()), square * (1 - 1e-3));
  EXPECT_GE(dot(smallest.data(), p.base), square * (1 - 1e-3));
}

TEST_P(Bodies, LeaveOutOutliers) {
  PlantedCuts p = planted_cuts(1, 200, 0.01);
  for (std::size_t i = 0; i < 10; ++i) p.cuts.slabs[12 * i].offset += 5;
  const std::unique_ptr<Body> body = carve(p.cuts);
  EXPECT_EQ(body->outliers(), 10);
  EXPECT_TRUE(body->contains(p.base));
}

INSTANTIATE_TEST_SUITE_P(Sculpt, Bodies,
                         testing::Values(SculptForm::least_squares, SculptForm::linear_program),
                         [](const auto& form) {
                           return form.param == SculptForm::least_squares ? "Ellipsoid" : "Polytope";
                         });

TEST(Sculpt, RefinementImprovesTheSum) {
  for (const double scale : {2.0, 8.0}) {
    const Plant p = plant(draw_teacher({.heads = 2, .dim = 7, .scale = scale, .seed = 1}), 2, 6000);
    Effort effort(kOptions, kExecution);
    const ProjectionSum crude = sum_of_projections(p.split, 1);
    const Agreement agreement = measure_agreement(p.split, crude.s, 1);
    const Cuts cuts = cuts_from(p.split, agreement, first_rows(p.split));
    const Vector proxy = carve_ellipsoid(cuts, 1)->minimum_norm_point();
    const Refinement refined = refine_sum(p.split, agreement, proxy, effort);
    EXPECT_EQ(refined.kind, scale > 4 ? "trimmed" : "one head");
    EXPECT_LT(relative_distance(refined.sum.s, true_sum(p.layer)),
              0.1 * relative_distance(crude.s, true_sum(p.layer)));
  }
}

// With the true hull the net must find the heads: the best tuple predicts held-out examples, and after the
// search every head is near a true one.
TEST(Sculpt, NetFindsAPlantedTuple) {
  for (const Index heads : {2, 3}) {
    const Plant p = plant(draw_teacher({.heads = heads, .dim = 5, .scale = 2, .seed = 2}), 3, 800);
    Span span;
    span.heads = heads;
    span.directions.vectors = Matrix<double>(heads - 1, 25);
    const Vector base = theta_of(p.layer, 0);
    for (Index i = 1; i < heads; ++i) {  // Gram-Schmidt on Theta_i - Theta_0
      Vector v = theta_of(p.layer, i);
      for (std::size_t j = 0; j < 25; ++j) v[j] -= base[j];
      for (Index l = 0; l < i - 1; ++l) {
        const double* u = span.directions.vectors.view().row(l);
        const double along = dot(u, v);
        for (std::size_t j = 0; j < 25; ++j) v[j] -= along * u[j];
      }
      const double length = std::sqrt(dot(v.data(), v));
      for (std::size_t j = 0; j < 25; ++j)
        span.directions.vectors(i - 1, static_cast<Index>(j)) = v[j] / length;
    }
    Vector proxy = base;  // some other point of the hull
    for (std::size_t j = 0; j < 25; ++j) proxy[j] += 0.7 * span.directions.vectors(0, static_cast<Index>(j));
    Effort effort(kOptions, kExecution);
    const NetResult net = search_net(p.split, proxy, span, 0, effort);
    EXPECT_LE(net.size, kMostTuples + 1000);
    EXPECT_LT(net.held_out_error, heads == 2 ? 0.01 : 0.1);
    for (Index i = 0; i < heads; ++i) {
      const Vector truth = theta_of(p.layer, i);
      double nearest = INFINITY;
      for (Index h = 0; h < heads; ++h) {
        double sum = 0;
        for (Index j = 0; j < 25; ++j)
          sum += std::pow(net.theta(j / 5, h * 5 + j % 5) - truth[static_cast<std::size_t>(j)], 2);
        nearest = std::min(nearest, std::sqrt(sum));
      }
      EXPECT_LT(nearest, heads == 2 ? 0.05 : 0.5);
    }
  }
}

TEST(Sculpt, RecoversWithEveryFormAndReports) {
  const Plant p =
      plant(draw_teacher({.heads = 2, .dim = 5, .scale = 2, .seed = 4}), 2, 4000, Inputs::gaussian);
  for (const SculptForm form : {SculptForm::least_squares, SculptForm::linear_program})
    for (const SpanForm span : {SpanForm::eigenvectors, SpanForm::membership}) {
      RecoverOptions options{.method = RecoverMethod::sculpt, .sculpt = {form, span}};
      const Recovery r = recover(p.examples, options, {.threads = 1});
      ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered) << name(form) << " " << name(span);
      EXPECT_EQ(r.certificate.heads, 2);
      EXPECT_LT(compare_layers(*r.layer, p.layer).worst_error, 1e-8);
      ASSERT_TRUE(r.certificate.sculpt && r.sculpt_span);
      EXPECT_EQ(r.certificate.sculpt->span_dimension, 1);
      EXPECT_LT(r.certificate.sculpt->net_error, 0.2);
      EXPECT_LT(r.certificate.sculpt->fine.tolerance, r.certificate.sculpt->rough.tolerance);
      EXPECT_EQ(r.sculpt_span->shape(), (std::vector<Index>{1, 5, 5}));
      Vector difference = theta_of(p.layer, 0);
      const Vector other = theta_of(p.layer, 1);
      for (std::size_t j = 0; j < 25; ++j) difference[j] -= other[j];
      const double cosine =
          dot(r.sculpt_span->data<double>(), difference) / std::sqrt(dot(difference.data(), difference));
      EXPECT_GT(std::abs(cosine), 0.98) << name(form) << " " << name(span);
    }
}

TEST(Sculpt, DoesNotDependOnThreads) {
  const Plant p =
      plant(draw_teacher({.heads = 2, .dim = 5, .scale = 2, .seed = 4}), 2, 2000, Inputs::gaussian);
  const RecoverOptions options{.method = RecoverMethod::sculpt, .sculpt = {.span = SpanForm::membership}};
  const Recovery one = recover(p.examples, options, {.threads = 1}),
                 three = recover(p.examples, options, {.threads = 3});
  EXPECT_EQ(one.sculpt_span->to_doubles(), three.sculpt_span->to_doubles());
  ASSERT_TRUE(one.layer && three.layer);
  EXPECT_EQ(one.layer->theta.to_doubles(), three.layer->theta.to_doubles());
}

// Labels that no layer has made, or too few of them: a status and no layer, whatever the phases thought they
// saw.
TEST(Sculpt, NeverPresentsWhatItDidNotFind) {
  Plant noise = plant(draw_teacher({.heads = 2, .dim = 4}), 3, 300);
  Stream stream(1, "noise");
  for (Index i = 0; i < noise.examples.y.size(); ++i) noise.examples.y.data<double>()[i] = stream.normal();
  const Plant few = plant(draw_teacher({.heads = 2, .dim = 6}), 3, 6);
  for (const SculptForm form : {SculptForm::least_squares, SculptForm::linear_program}) {
    const RecoverOptions options{.method = RecoverMethod::sculpt, .sculpt = {.form = form}, .max_heads = 3};
    const Recovery of_noise = recover(noise.examples, options, {});
    EXPECT_EQ(of_noise.certificate.status, RecoveryStatus::not_identified);
    EXPECT_FALSE(of_noise.layer.has_value());
    EXPECT_FALSE(recover(few.examples, options, {}).layer.has_value());
    RecoverOptions hurried = options;
    hurried.time_limit_seconds = 1e-3;
    EXPECT_EQ(recover(noise.examples, hurried, {}).certificate.status, RecoveryStatus::stalled);
  }
}

}  // namespace
}  // namespace headlens
