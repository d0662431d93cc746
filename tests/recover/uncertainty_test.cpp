// Error bars, the weakest direction and the Cramer-Rao bound, against dense matrices.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/packing.hpp"
#include "cpu/layer/variable_projection.hpp"
#include "headlens/recover.hpp"
#include "linalg/eigen.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/error_bars.hpp"
#include "recover/certificate/weakest_direction.hpp"
#include "reference/attention_jacobian.hpp"
#include "small_layer.hpp"

namespace headlens::recovery {
namespace {

struct BarsProblem : SmallLayer {
  cpu::VariableProjection projection{{examples.x.data<double>(), kCount* kTokens, kDim},
                                     {examples.y.data<double>(), kCount* kTokens, kOutputs},
                                     kTokens,
                                     kHeads,
                                     1};
  std::unique_ptr<backend::LayerPoint> held = projection.make_point();
  backend::LayerPoint& point = *held;
  AttentionLayer fitted;

  BarsProblem() : SmallLayer(0.01) {
    projection.evaluate(pack_theta(layer.theta), 0, point);
    projection.linearise(point);
    fitted = unpack_layer(point.parameters, point.w);
  }
};

// Row by row of Theta_i, the order of the reference, from the packed (d, m d) form.
double packed(const Matrix<double>& theta, Index parameter) {
  const Index i = parameter / (kDim * kDim), q = parameter / kDim % kDim, r = parameter % kDim;
  return theta(q, i * kDim + r);
}

TEST(ErrorBars, DrawsHaveTheCovarianceOfLeastSquares) {
  BarsProblem p;
  const Matrix<double> covariance =
      reference::inverse_information(reference::attention_jacobian(p.fitted, p.examples.x));
  // tr C of each head from one draw a seed; 400 draws of at least 12 degrees of freedom: the mean is within
  // 4 standard errors, 4 sqrt(2 / (400 * 12)) = 8%, at 99.99%.
  constexpr int kRepeats = 400;
  double theta_trace[kHeads] = {}, sum[kHeads] = {};
  for (Index i = 0; i < kHeads; ++i)
    for (Index j = 0; j < kDim * kDim; ++j)
      theta_trace[i] += covariance(i * kDim * kDim + j, i * kDim * kDim + j);
  for (int r = 0; r < kRepeats; ++r) {
    const ErrorBars bars = error_bars(p.projection, p.point, ResidualIs::anything,
                                      static_cast<std::uint64_t>(r), [] { return false; });
    for (Index j = 0; j < kHeads * kDim * kDim; ++j)
      sum[j / (kDim * kDim)] += std::pow(packed(bars.draws[0], j), 2) / kRepeats;
  }
  for (Index i = 0; i < kHeads; ++i) EXPECT_NEAR(sum[i] / theta_trace[i], 1, 0.08) << "head " << i;
}

TEST(ErrorBars, NoiseIsEstimatedWithoutBias) {
  BarsProblem p;
  // 540 equations less 56 unknowns, of which Theta is not even fitted here: sigma to 10%.
  EXPECT_NEAR(error_bars(p.projection, p.point, ResidualIs::noise, 0, [] { return false; }).noise / 0.01, 1,
              0.15);
}

TEST(WeakestDirection, IsTheSmallestSingularValueOfTheProjectedJacobian) {
  BarsProblem p;
  // Eliminating W from J^T J leaves its Schur complement, whose inverse is the Theta block of (J^T J)^-1.
  const Matrix<double> covariance =
      reference::inverse_information(reference::attention_jacobian(p.fitted, p.examples.x));
  const Index size = kHeads * kDim * kDim;
  const SymmetricEigen eigen = symmetric_eigen(covariance.view().block(0, 0, size, size));
  ASSERT_TRUE(eigen.ok());
  const double smallest = std::sqrt(1 / eigen.values.back());
  const ErrorBars bars = error_bars(p.projection, p.point, ResidualIs::anything, 0, [] { return false; });
  const WeakestDirection found = weakest_direction(p.projection, p.point, bars.draws, [] { return false; });
  const double unit = std::sqrt(p.projection.y_squares() / squared_norm(p.point.parameters));
  EXPECT_GE(found.response * unit, smallest * (1 - 1e-8));  // a Rayleigh quotient bounds from above
  EXPECT_LE(found.response * unit, smallest * 1.01);
  for (Index i = 0; i < kHeads; ++i) {
    double share = 0;
    for (Index j = 0; j < kDim * kDim; ++j)
      share += std::pow(eigen.vectors(size - 1, i * kDim * kDim + j), 2);
    EXPECT_NEAR(head_shares(found.directions.at(0))[std::size_t(i)], share, 0.15) << "head " << i;
  }
}

TEST(Certificate, BoundsTheErrorOfARecoveredLayer) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const AttentionLayer layer = draw_teacher({.heads = 2, .dim = 6, .seed = seed});
    const Examples examples = draw_examples(layer, {.count = 120, .tokens = 4, .seed = seed + 50}, {});
    const Recovery recovery = recover(examples, {.heads = 2}, {.threads = 1});
    ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered);
    const Comparison comparison = compare_layers(*recovery.layer, layer);
    for (const HeadMatch& match : comparison.matches) {
      const HeadReport& head = recovery.certificate.per_head[std::size_t(match.a)];
      // 1e-15: a few roundings of the entries themselves.
      EXPECT_LE(match.theta_error, head.theta_bar + 1e-15);
      EXPECT_LE(match.w_error, head.w_bar + 1e-15);
    }
  }
}

TEST(Certificate, NamesTheHeadThatTheExamplesHardlySee) {
  AttentionLayer layer = draw_teacher({.heads = 2, .dim = 6, .seed = 3});
  for (Index j = 0; j < 36; ++j) layer.w.data<double>()[j] *= 1e-3;
  const Examples examples = draw_examples(layer, {.count = 200, .tokens = 4, .seed = 4}, {});
  const Recovery recovery = recover(examples, {.heads = 2}, {.threads = 1});
  ASSERT_EQ(recovery.certificate.status, RecoveryStatus::recovered);
  const auto& shares = recovery.certificate.weakest_shares;
  const auto& heads = recovery.certificate.per_head;
  const std::size_t faint = heads[0].w_norm < heads[1].w_norm ? 0 : 1;
  EXPECT_GT(shares[faint], 0.99);
  EXPECT_LT(*recovery.certificate.smallest_singular_value, 1e-3);
}

}  // namespace
}  // namespace headlens::recovery
