// Harmonics of one token and Bessel functions: against closed forms and quadrature.
#include "theory/harmonics.hpp"

#include <gtest/gtest.h>

#include <boost/math/special_functions/bessel.hpp>

#include "reference/sphere.hpp"
#include "theory/bessel.hpp"

namespace headlens {
namespace {

using namespace reference;

TEST(Harmonics, AreCountedAsTheTextbooksDo) {
  for (Index a = 1; a <= 300; ++a) {
    const double k = static_cast<double>(a);
    EXPECT_NEAR(log_harmonics(2, a), std::log(2), 1e-13);
    EXPECT_NEAR(log_harmonics(3, a), std::log(2 * k + 1), 1e-12);
    EXPECT_NEAR(log_harmonics(4, a), 2 * std::log(k + 1), 1e-12);
  }
  for (const Index dim : {2, 3, 16, 5000, 1000000}) {
    const double d = static_cast<double>(dim);
    EXPECT_EQ(log_harmonics(dim, 0), 0);
    EXPECT_NEAR(log_harmonics(dim, 1), std::log(d), 1e-14 * d);
    EXPECT_NEAR(log_harmonics(dim, 2), std::log((d - 1) * (d + 2) / 2), 1e-13);
  }
}

TEST(Harmonics, SharesOfMonomialsAgreeWithQuadrature) {
  for (const Index dim : {2, 3, 7, 16}) {
    const Rule rule = coordinate_rule(dim);
    for (Index p = 0; p <= 12; ++p)
      for (Index a = p % 2; a <= p; a += 2) {
        const Real want =
            mean(rule, [&](Real t) { return std::pow(t, static_cast<Real>(p)) * gegenbauer(dim, a, t); });
        EXPECT_NEAR(std::exp(log_monomial_share(dim, p, a)), static_cast<double>(want),
                    1e-12 * static_cast<double>(want) + 1e-17)
            << "d " << dim << " p " << p << " a " << a;
      }
  }
}

TEST(Bessel, PlaneWavesOfThreeDimensionsAreElementary) {
  for (double y = 1e-12; y < 1e9; y *= 1.7) {
    const double elementary = y < 1e-3 ? y * y / 6 : y + std::log(-std::expm1(-2 * y) / (2 * y));
    EXPECT_NEAR(log_plane_wave(3, 0, y), elementary, 1e-14 * (1 + y) + 1e-6 * y * y * (y < 1e-3)) << y;
  }
}

// Both sides of the change from the power series to Debye's expansion, orders far above and below it.
TEST(Bessel, PlaneWavesAgreeWithBesselFunctions) {
  for (const Index dim : {2, 5, 16, 101})
    for (const Index degree : {0, 1, 2, 9, 40})
      for (const double y : {0.01, 1.0, 20.0, 28.0, 29.0, 60.0, 150.0, 300.0, 600.0}) {
        const double nu = 0.5 * static_cast<double>(dim) - 1;
        const double bessel = boost::math::cyl_bessel_i(nu + static_cast<double>(degree), y);
        if (bessel < 1e-300) continue;
        const double want = std::lgamma(nu + 1) + nu * std::log(2 / y) + std::log(bessel);
        EXPECT_NEAR(log_plane_wave(dim, degree, y), want, 1e-13 * (10 + y + std::abs(std::log(bessel))))
            << "d " << dim << " degree " << degree << " y " << y;
      }
}

TEST(Bessel, BesselKIsContinuousAndRight) {
  for (const double z : {1e-18, 1e-3, 1.0, 39.9, 40.0, 40.1, 200.0, 600.0})
    EXPECT_NEAR(log_bessel_k0(z), std::log(boost::math::cyl_bessel_k(0, z)), 1e-14 * (1 + z)) << z;
  EXPECT_TRUE(std::isfinite(log_bessel_k0(1e9)));
}

}  // namespace
}  // namespace headlens
