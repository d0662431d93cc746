// The dense factor and the bounds that come from it, against the Jacobian entry by entry.
#include "recover/certificate/bounds.hpp"
#include "linalg/vector_space.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/packing.hpp"
#include "linalg/eigen.hpp"
#include "recover/polish.hpp"
#include "reference/attention_jacobian.hpp"
#include "small_layer.hpp"

namespace headlens::recovery {
namespace {

struct Problem : SmallLayer {
  Problem() : SmallLayer(1e-3) {}
  Split split = hold_out(examples);
  Linearisation at = *linearise(split, pack_theta(layer.theta), 1);
  // (J^T J)^-1 in the order of the reference, over the training examples.
  Matrix<double> covariance = [&] {
    const Index train = split.train_x.rows / kTokens;
    Array x(DType::f64, {train, kTokens, kDim});
    std::copy_n(split.train_x.data, x.size(), x.data<double>());
    return reference::inverse_information(reference::attention_jacobian(unpack_layer(at.theta, at.w), x));
  }();
};

// Index of Theta_i(a, b) in the reference and in the packed form.
Index in_reference(Index i, Index a, Index b) { return (i * kDim + a) * kDim + b; }
Index in_packed(Index i, Index a, Index b) { return a * kHeads * kDim + i * kDim + b; }

TEST(Linearisation, FactorIsThatOfTheProjectedJacobian) {
  Problem p;
  const Index size = kHeads * kDim * kDim;
  // Eliminating W leaves the Theta block of the inverse: L^-T L^-1.
  Matrix<double> product(size, size);
  for (Index i = 0; i < kHeads; ++i)
    for (Index a = 0; a < kDim; ++a)
      for (Index b = 0; b < kDim; ++b)
        for (Index j = 0; j < kHeads; ++j)
          for (Index c = 0; c < kDim; ++c)
            for (Index d = 0; d < kDim; ++d) {
              double sum = 0;  // (C H)(ref, ref) = I, H = L L^T in the packed order
              for (Index k = 0; k < kHeads; ++k)
                for (Index r = 0; r < kDim; ++r)
                  for (Index s = 0; s < kDim; ++s) {
                    double h = 0;
                    const Index u = in_packed(k, r, s), v = in_packed(j, c, d);
                    for (Index q = 0; q <= std::min(u, v); ++q) h += p.at.factor(u, q) * p.at.factor(v, q);
                    sum += p.covariance(in_reference(i, a, b), in_reference(k, r, s)) * h;
                  }
              product(in_reference(i, a, b), in_reference(j, c, d)) = sum;
            }
  for (Index u = 0; u < size; ++u)
    for (Index v = 0; v < size; ++v) EXPECT_NEAR(product(u, v), u == v, 1e-8);
}

TEST(Linearisation, ResidualSplitsIntoWhatAStepRemovesAndTheRest) {
  Problem p;
  EXPECT_NEAR(p.at.beyond + squared_norm(p.at.along), p.at.squares, 1e-10 * p.at.squares);
  // A step to the minimum of the linear model, then another: what is left to remove falls quadratically.
  Effort effort({}, {});
  const Linearisation end = *polish(p.split, p.at.theta, "test", effort);
  EXPECT_LT(squared_norm(end.along), 1e-6 * end.squares);
  EXPECT_LT(end.squares, p.at.squares);
}

TEST(Bounds, AreTheWorstCaseOverErrorsOfTheLabels) {
  Problem p;
  const Bounds bounds = bound_errors(p.at, std::vector<double>(kDim, 1));
  for (Index i = 0; i < kHeads; ++i) {
    Matrix<double> theta(kDim * kDim, kDim * kDim), w(kDim * kOutputs, kDim * kOutputs);
    for (Index u = 0; u < theta.rows(); ++u)
      for (Index v = 0; v < theta.cols(); ++v)
        theta(u, v) = p.covariance(i * kDim * kDim + u, i * kDim * kDim + v);
    const Index first = kHeads * kDim * kDim + i * kDim * kOutputs;
    for (Index u = 0; u < w.rows(); ++u)
      for (Index v = 0; v < w.cols(); ++v) w(u, v) = p.covariance(first + u, first + v);
    const double theta_worst = std::sqrt(symmetric_eigen(theta.view()).values.back());
    const double w_worst = std::sqrt(symmetric_eigen(w.view()).values.back());
    const auto head = static_cast<std::size_t>(i);
    // Twice, for what lies beyond first order.
    EXPECT_NEAR(bounds.plain[head].theta / (2 * bounds.label_error * theta_worst), 1, 1e-6);
    // W's two causes are added as if they were independent: an upper bound, less than sqrt(2) above.
    EXPECT_GE(bounds.plain[head].w, 2 * bounds.label_error * w_worst * (1 - 1e-9));
    EXPECT_LE(bounds.plain[head].w, 2 * bounds.label_error * w_worst * std::sqrt(2.0));
  }
}

TEST(Bounds, FollowTheUnitsOfTheCoordinates) {
  Problem p;
  const Bounds plain = bound_errors(p.at, std::vector<double>(kDim, 1));
  const Bounds halved = bound_errors(p.at, std::vector<double>(kDim, 0.5));
  for (std::size_t i = 0; i < kHeads; ++i) {
    EXPECT_NEAR(halved.heads[i].theta, plain.heads[i].theta / 4, 1e-9 * plain.heads[i].theta);
    EXPECT_NEAR(halved.heads[i].w, plain.heads[i].w / 2, 1e-9 * plain.heads[i].w);
  }
}

}  // namespace
}  // namespace headlens::recovery
