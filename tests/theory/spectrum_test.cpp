// Eigenvalues: against quadrature, against the plain series, against random sets; sum rules and extremes.
#include "theory/spectrum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headlens/error.hpp"
#include "headlens/kernel.hpp"
#include "headlens/tasks.hpp"
#include "reference/sphere.hpp"
#include "theory/attention_spectrum.hpp"
#include "theory/harmonics.hpp"
#include "theory/network_spectrum.hpp"

namespace headlens {
namespace {

using namespace reference;

double eigenvalue(const KernelSpectrum& spectrum, Index a, Index b) {
  return std::exp(spectrum.log_eigenvalue(a, b));
}

// Quadrature cancels, so it is only good to an absolute error; the eigenvalues are compared down to there.
TEST(AttentionSpectrum, AgreesWithQuadrature) {
  for (const Index dim : {2, 3, 5, 16}) {
    const AttentionSpectrum spectrum(dim, 1);
    const Rule rule = coordinate_rule(dim);
    for (const auto& [a, b] :
         std::vector<std::pair<Index, Index>>{{0, 0}, {0, 1}, {1, 0}, {0, 4}, {3, 2}, {2, 5}}) {
      const Real want = mean(rule, [&, a = a, b = b](Real s) {
        return gegenbauer(dim, a, s) *
               mean(rule, [&](Real t) { return attention_pair(s, t) * gegenbauer(dim, b, t); });
      });
      EXPECT_NEAR(eigenvalue(spectrum, a, b), static_cast<double>(want),
                  1e-12 * static_cast<double>(want) + 1e-17)
          << "d " << dim << " degrees " << a << ", " << b;
    }
  }
}

// The series term by term in long double: 2 a_t mu(t, a) mu(t + 1, b), mu = (c)_t / (2c)_t prod (t - k)/(t +
// d - 1 + k).
Real plain_series(Index dim, Index a, Index b, Index last) {
  const Real c = static_cast<Real>(dim - 1) / 2;
  std::vector<Real> start{1};
  const auto moment = [&](Index t, Index degree) {
    while (static_cast<Index>(start.size()) <= t) {
      const Real k = static_cast<Real>(start.size()) - 1;
      start.push_back(start.back() * (c + k) / (2 * c + k));
    }
    Real value = start[static_cast<std::size_t>(t)];
    for (Index k = 0; k < degree; ++k) value *= static_cast<Real>(t - k) / static_cast<Real>(t + dim - 1 + k);
    return value;
  };
  const Real pi = std::numbers::pi_v<Real>;
  Real sum = moment(0, a) * moment(1, b) / pi + moment(1, a) * moment(2, b) / 2, central = 1;
  for (Index j = 0; 2 * j + 2 <= last; ++j) {
    const Real k = static_cast<Real>(j);
    sum += central / (pi * (2 * k + 1) * (2 * k + 2)) * moment(2 * j + 2, a) * moment(2 * j + 3, b);
    central *= (2 * k + 1) / (2 * k + 2);
  }
  return sum;
}

// What the plain series leaves out beyond its last term T is of relative order (degree^2 / T)^(d + 1/2).
TEST(AttentionSpectrum, GaussNodesSumTheSeries) {
  struct Case {
    Index dim, a, b;
    double tolerance;
  };
  for (const auto& [dim, a, b, tolerance] :
       {Case{2, 3, 5, 1e-11}, Case{2, 12, 0, 1e-9}, Case{3, 8, 13, 1e-12}, Case{16, 30, 3, 1e-12},
        Case{16, 64, 65, 1e-12}, Case{300, 4, 3, 1e-13}, Case{5000, 6, 5, 1e-12}}) {
    const double want = std::log(static_cast<double>(plain_series(dim, a, b, 1000000)));
    EXPECT_NEAR(AttentionSpectrum(dim, 1).pair_log_eigenvalue(a, b), want, tolerance)
        << "d " << dim << " degrees " << a << ", " << b;
  }
}

// sum_ab D_a D_b lambda_ab = K at coincident points = 1 for N = 1.
TEST(AttentionSpectrum, SumsToTheDiagonalOfTheKernel) {
  for (const Index dim : {2, 3, 16, 1000}) {
    const AttentionSpectrum spectrum(dim, 1);
    double before = 2;
    for (const Index degree : {2, 4, 8, 16}) {
      const Levels levels = spectrum.levels(degree);
      EXPECT_NEAR(levels.trace + eigenvalue(spectrum, 0, 0), 1, 1e-14);
      double kept = 0;
      for (const Level& level : levels.kept) kept += level.eigenvalue * level.multiplicity;
      EXPECT_NEAR(kept + levels.rest, levels.trace, 1e-14);
      EXPECT_LT(levels.rest, before) << "d " << dim;
      before = levels.rest;
    }
  }
  // In the plane eigenvalues fall as the fifth power of the degree, four functions to a pair of degrees.
  EXPECT_LT(AttentionSpectrum(2, 1).levels(200).rest, 1e-6);
  EXPECT_GT(AttentionSpectrum(2, 1).levels(200).rest, 1e-9);
}

TEST(AttentionSpectrum, LevelsAreTheEigenvalues) {
  const AttentionSpectrum spectrum(7, 5);
  const Levels levels = spectrum.levels(3);
  ASSERT_EQ(levels.kept.size(), 12u + 12u);  // functions of the query to degree 12, others to degree 3
  std::size_t at = 0;
  const auto expect_level = [&](Index a, Index b) {
    EXPECT_NEAR(levels.kept[at].eigenvalue / eigenvalue(spectrum, a, b), 1, 1e-12);
    EXPECT_NEAR(std::log(levels.kept[at].multiplicity), log_harmonics(7, a) + log_harmonics(7, b), 1e-12);
    ++at;
  };
  for (Index a = 1; a <= 12; ++a) expect_level(a, 0);
  for (Index a = 0; a <= 3; ++a)
    for (Index b = 1; b <= 3; ++b) expect_level(a, b);
  const double largest =
      std::max({eigenvalue(spectrum, 13, 0), eigenvalue(spectrum, 4, 1), eigenvalue(spectrum, 0, 4)});
  EXPECT_NEAR(levels.largest_left_out / largest, 1, 1e-12);
}

TEST(AttentionSpectrum, IsFiniteAndFallingInAnyDimension) {
  for (const Index dim : {2, 3, 100, 5000, 1000000}) {
    const AttentionSpectrum spectrum(dim, 3);
    for (Index a = 0; a <= 70; a += 7) {
      EXPECT_TRUE(std::isfinite(spectrum.log_eigenvalue(a, a + 1)));
      EXPECT_LT(spectrum.log_eigenvalue(a + 1, a), spectrum.log_eigenvalue(a, a));
      EXPECT_LT(spectrum.log_eigenvalue(a, a + 1), spectrum.log_eigenvalue(a, a));
    }
  }
  EXPECT_TRUE(std::isfinite(AttentionSpectrum(2, 1).log_eigenvalue(2047, 2047)));
  EXPECT_THROW(static_cast<void>(AttentionSpectrum(2, 1).log_eigenvalue(2048, 0)), Error);
  EXPECT_THROW(static_cast<void>(AttentionSpectrum(2, 1).levels(512)), Error);
}

TEST(NetworkSpectrum, AgreesWithQuadratureForTwoTokens) {
  for (const Index dim : {2, 3, 16}) {
    const NetworkSpectrum spectrum(dim, 1);
    const Rule rule = coordinate_rule(dim);
    for (const auto& [a, b] :
         std::vector<std::pair<Index, Index>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 4}, {3, 2}}) {
      const Real want = mean(rule, [&, a = a, b = b](Real s) {
        return gegenbauer(dim, a, s) *
               mean(rule, [&](Real t) { return kappa((1 + (s + t) / 2) / 2) * gegenbauer(dim, b, t); });
      });
      EXPECT_NEAR(eigenvalue(spectrum, a, b), static_cast<double>(want),
                  1e-12 * static_cast<double>(want) + 1e-17)
          << "d " << dim << " degrees " << a << ", " << b;
    }
  }
}

TEST(NetworkSpectrum, AgreesWithQuadratureForThreeTokens) {
  const NetworkSpectrum spectrum(4, 2);
  const Rule rule = coordinate_rule(4, 6);
  const Real want = mean(rule, [&](Real s) {
    return s * mean(rule, [&](Real t) {
             return gegenbauer(4, 2, t) *
                    mean(rule, [&](Real u) { return kappa((1 + (s + t + u) / 3) / 2); });
           });
  });
  EXPECT_NEAR(eigenvalue(spectrum, 1, 2) / static_cast<double>(want), 1, 1e-9);
}

TEST(NetworkSpectrum, SumsToTheDiagonalOfTheKernel) {
  for (const auto& [dim, keys] :
       std::vector<std::pair<Index, Index>>{{2, 1}, {3, 1}, {3, 4}, {16, 16}, {1000, 2}}) {
    const NetworkSpectrum spectrum(dim, keys);
    double before = 1;
    for (const Index degree : {1, 2, 3, 5, 8}) {
      const Levels levels = spectrum.levels(degree);
      EXPECT_NEAR(levels.trace + eigenvalue(spectrum, 0, 0), 0.5, 1e-14);
      EXPECT_LT(levels.rest, before);
      EXPECT_GT(levels.rest, 0);
      before = levels.rest;
    }
  }
  EXPECT_LT(NetworkSpectrum(2, 1).levels(120).rest, 1e-6);
  EXPECT_EQ(NetworkSpectrum(3, 1).levels(4).kept.size(), 8u);  // 1, 11, 2, 21, 22, 3, 31, 4
  EXPECT_THROW(static_cast<void>(NetworkSpectrum(2, 30).levels(100)), Error);
}

TEST(NetworkSpectrum, LevelsAreTheEigenvaluesWithTheirArrangements) {
  const NetworkSpectrum spectrum(5, 3);
  const Levels levels = spectrum.levels(2);  // 1, 11, 2
  ASSERT_EQ(levels.kept.size(), 3u);
  EXPECT_NEAR(levels.kept[0].multiplicity, 4 * 5, 1e-10);
  EXPECT_NEAR(levels.kept[1].multiplicity, 6 * 25, 1e-10);
  EXPECT_NEAR(levels.kept[2].multiplicity, 4 * 14, 1e-10);
  EXPECT_NEAR(levels.kept[0].eigenvalue / eigenvalue(spectrum, 0, 1), 1, 1e-12);
  EXPECT_NEAR(levels.kept[1].eigenvalue / eigenvalue(spectrum, 1, 1), 1, 1e-12);
  EXPECT_NEAR(levels.kept[2].eigenvalue / eigenvalue(spectrum, 2, 0), 1, 1e-12);
}

// lambda = E[K(x, x') Z(x, x')], Z the mean over the eigenfunctions phi of a level of phi(x) phi(x'), here of
// degrees 0 and 1: <x_0, x'_0>^a (1/N) sum_ij <x_i, x'_j>, or <x_0, x'_0>^a.
TEST(KernelSpectrum, AgreesWithTheKernelOnRandomSets) {
  constexpr Index kSets = 1000, kDim = 3, kKeys = 4;
  const auto draw = [&](std::uint64_t seed) {
    return generate({.dim = kDim, .min_keys = kKeys, .max_keys = kKeys, .count = kSets, .seed = seed}, {})
        .sets;
  };
  const Sets left = draw(1), right = draw(2);
  const auto dot = [](const double* x, const double* y) { return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; };
  const auto zonal = [&](Index i, Index j, Index a, Index b) {
    const double query = dot(left.query().data<double>() + i * kDim, right.query().data<double>() + j * kDim);
    double keys[kDim] = {}, others[kDim] = {};
    for (Index k = 0; k < kKeys * kDim; ++k) {
      keys[k % kDim] += left.keys().data<double>()[i * kKeys * kDim + k];
      others[k % kDim] += right.keys().data<double>()[j * kKeys * kDim + k];
    }
    return (a ? query : 1) * (b ? dot(keys, others) / kKeys : 1);
  };
  struct Case {
    ModelKind model;
    Index a, b;
  };
  for (const auto& [model, a, b] :
       {Case{ModelKind::rfa, 1, 0}, Case{ModelKind::rfa, 0, 1}, Case{ModelKind::rfa, 1, 1},
        Case{ModelKind::mlp, 1, 0}, Case{ModelKind::mlp, 0, 1}}) {
    KernelOptions options;
    options.features.kind = model;
    const Array kernel = attention_kernel(left, right, options, {}).values;
    double constant = 0;  // does not count, and would be noise
    for (Index k = 0; k < kSets * kSets; ++k) constant += kernel.at(k) / (double{kSets} * kSets);
    std::vector<double> rows(kSets, 0.0), columns(kSets, 0.0);
    double total = 0, square = 0;
    for (Index i = 0; i < kSets; ++i)
      for (Index j = 0; j < kSets; ++j) {
        const double value = (kernel.at(i * kSets + j) - constant) * zonal(i, j, a, b) / kSets;
        rows[static_cast<std::size_t>(i)] += value;
        columns[static_cast<std::size_t>(j)] += value;
        total += value / kSets;
      }
    for (const auto* side : {&rows, &columns})
      for (const double value : *side) square += (value - total) * (value - total) / (double{kSets} * kSets);
    const double want = eigenvalue(*make_spectrum(model, kDim, kKeys), a, b);
    EXPECT_NEAR(total, want, 4 * std::sqrt(square)) << name(model) << " degrees " << a << ", " << b;
    EXPECT_LT(4 * std::sqrt(square), 0.2 * want);
  }
}

}  // namespace
}  // namespace headlens
