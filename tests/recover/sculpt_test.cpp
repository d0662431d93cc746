// The phases of sculpting, each against what is known exactly; then all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "headlens/recover.hpp"
#include "recover/sculpt/body.hpp"
#include "recover/sculpt/net.hpp"
#include "recover/sculpt/refine.hpp"
#include "recover/sculpt/span.hpp"
#include "recover/sculpt/sum.hpp"
#include "sculpt_plant.hpp"

namespace headlens::recovery {
namespace {

using namespace sculpting;

const RecoverOptions kOptions{};
const Execution kExecution{.threads = 1};

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
    return GetParam() == SculptForm::least_squares ? carve_ellipsoid(cuts, effort)
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
    const Vector proxy = carve_ellipsoid(cuts, effort)->minimum_norm_point();
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
    const NetResult net = search_net(p.split, proxy, span, {}, effort);
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

// With several heads the net is coarse, and the polish from its best tuple may end in a local minimum. The
// next best tuples find these layers all the same.
TEST(Sculpt, LeavesLocalMinima) {
  int left = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const AttentionLayer layer = draw_teacher({.heads = 4, .dim = 6, .scale = 2, .seed = seed});
    const Examples examples = draw_examples(layer, {.count = 400, .tokens = 2, .seed = seed}, {});
    const Recovery r = recover(examples, {.method = RecoverMethod::sculpt, .heads = 4}, kExecution);
    ASSERT_EQ(r.certificate.status, RecoveryStatus::recovered) << "seed " << seed;
    EXPECT_LT(compare_layers(*r.layer, layer).worst_error, 1e-8);
    left += r.certificate.sculpt->polished_tuples > 1;
  }
  EXPECT_GT(left, 0);
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
}  // namespace headlens::recovery
