// Moments of Gaussian scores against adaptive quadrature, and the vectorised forms against them.
#include "cpu/kernels/moments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/normal.hpp"
#include "base/random.hpp"
#include "cpu/kernels/moment_rows.hpp"
#include "cpu/levels.hpp"
#include "reference/moments.hpp"

namespace headlens::cpu {
namespace {

// Every product and probability is rounded once or twice: a few ulp of the largest term, 1 + |h k|.
void expect_moments(double h, double k, double rho) {
  const double bound = 64 * 2.2e-16 * (1 + std::abs(h * k));
  ASSERT_LT(bound, 1e-10);
  EXPECT_NEAR(relu_moment(h, k, rho), static_cast<double>(reference::relu_moment(h, k, rho)), bound)
      << "relu h " << h << " k " << k << " rho " << rho;
  EXPECT_NEAR(step_moment(h, k, rho), static_cast<double>(reference::step_moment(h, k, rho)), 1e-13)
      << "step h " << h << " k " << k << " rho " << rho;
}

TEST(Moments, AgreeWithQuadratureAtTheEdges) {
  for (const double rho :
       {-1.0, -1 + 1e-15, -1 + 1e-9, -0.999, -0.5, 0.0, 0.7, 0.9, 1 - 1e-6, 1 - 1e-10, 1 - 1e-15, 1.0})
    for (const double h : {-8.0, -1e-9, 0.0, 1e-9, 3.0, 8.0})
      for (const double k : {-8.0, -1.0, 0.0, 1e-9, 3.0, 8.0}) expect_moments(h, k, rho);
}

TEST(Moments, AgreeWithQuadratureInside) {
  Stream stream(1, "test-moments");
  for (int i = 0; i < 1500; ++i) {
    const double reach = i % 2 ? 2 : 8, h = reach * (2 * stream.uniform() - 1);
    const double k = i % 7 == 0 ? h * (1 + 1e-6 * stream.uniform()) : reach * (2 * stream.uniform() - 1);
    const double near = 1 - std::pow(10, -14 * stream.uniform());
    expect_moments(h, k, i % 5 == 0 ? (i % 2 ? near : -near) : 2 * stream.uniform() - 1);
  }
}

TEST(Moments, ScoresWithoutDeviationAreTheirMeans) {
  const double alone = 0.7 * (0.5 / 0.7 * normal_probability(0.5 / 0.7) + normal_density(0.5 / 0.7));
  for (const double rho : {-1.0, -0.3, 0.0, 1.0}) {
    EXPECT_EQ(relu_moment(2.0, 0.0, 3.0, 0.0, rho), 6.0);
    EXPECT_EQ(relu_moment(-2.0, 0.0, 3.0, 0.0, rho), 0.0);
    EXPECT_EQ(relu_moment(0.0, 0.0, 0.0, 0.0, rho), 0.0);
    EXPECT_NEAR(relu_moment(2.0, 0.0, 0.5, 0.7, rho), 2 * alone, 1e-15);
    EXPECT_NEAR(relu_moment(0.5, 0.7, 2.0, 0.0, rho), 2 * alone, 1e-15);
    EXPECT_EQ(relu_moment(0.5, 0.7, 0.0, 0.0, rho), 0.0);
    // A small deviation is near none, however small.
    for (const double tiny : {1e-9, 1e-60, 1e-150, 1e-320})
      EXPECT_NEAR(relu_moment(2.0, tiny, 0.5, 0.7, rho), 2 * alone, 3e-9);
  }
}

TEST(Moments, AreFiniteAndOrderedForAnyArguments) {
  for (const double rho : {-1.0, -1 + 2e-16, -0.5, 0.0, 0.5, 1 - 1e-16, 1.0})
    for (const double h : {-1e90, -40.0, -1e-300, 0.0, 1e-300, 40.0, 1e90})
      for (const double k : {-1e90, -40.0, 0.0, 5e-324, 40.0, 1e90}) {
        const double relu = relu_moment(h, k, rho), step = step_moment(h, k, rho);
        EXPECT_TRUE(std::isfinite(relu) && relu >= 0) << h << " " << k << " " << rho;
        EXPECT_TRUE(step >= 0 && step <= 1) << h << " " << k << " " << rho;
      }
}

// A block of columns with their arrays, for the row functions.
struct Row {
  std::vector<double> cosines, query, factors, sums;
  double* aligned(std::vector<double>& v) {
    return reinterpret_cast<double*>((reinterpret_cast<std::uintptr_t>(v.data()) + 63) / 64 * 64);
  }
  explicit Row(Index columns) {
    for (auto* v : {&cosines, &query, &factors, &sums}) v->assign(static_cast<std::size_t>(columns) + 8, 0.0);
  }
  MomentRow view(Index columns) {
    return {aligned(cosines), aligned(query), aligned(factors), columns, 1.0, aligned(sums)};
  }
};

TEST(MomentRows, ArcCosineIsAccurateEverywhere) {
  constexpr Index kColumns = 2048;
  for (const SimdLevel level : levels()) {
    Row row(kColumns);
    const MomentRow view = row.view(kColumns);
    for (Index j = 0; j < kColumns; ++j) {
      row.aligned(row.cosines)[j] = -1 + 2.0 * static_cast<double>(j) / (kColumns - 1);
      row.aligned(row.query)[j] = 1;
      row.aligned(row.factors)[j] = 1;
    }
    row.aligned(row.cosines)[0] = -1 - 4e-16;  // as rounding makes them
    row.aligned(row.cosines)[kColumns - 1] = 1 + 4e-16;
    moment_row_functions(level).arc_cosine(view);
    for (Index j = 0; j < kColumns; ++j) {
      const long double rho = std::clamp<long double>(view.cosines[j], -1, 1),
                        pi = std::numbers::pi_v<long double>;
      const long double want = (std::sqrt((1 - rho) * (1 + rho)) + rho * (pi - std::acos(rho))) / (2 * pi);
      EXPECT_NEAR(view.sums[j], static_cast<double>(want), 4 * 1.1e-16)
          << name(level) << " rho " << view.cosines[j];
    }
  }
}

TEST(MomentRows, MehlerStaysWithinItsBound) {
  constexpr Index kColumns = 8 * kColumnBlock;
  const MehlerTerms terms;
  Buffer<double> columns(kColumns * kMehlerTerms), rows(kColumnBlock * kMehlerTerms);
  for (const SimdLevel level : levels())
    for (const double reach : {0.1, 0.5, kMehlerReach, 1.0}) {
      Stream stream(2, "test-mehler");
      Row row(kColumns);
      const MomentRow view = row.view(kColumns);
      std::vector<double> k(kColumns), h(kColumnBlock);
      for (double& x : h) x = 16 * stream.uniform() - 8;
      for (Index j = 0; j < kColumns; ++j) {
        k[static_cast<std::size_t>(j)] = 16 * stream.uniform() - 8;
        row.aligned(row.cosines)[j] = 2 * stream.uniform() - 1;
        row.aligned(row.query)[j] = reach;
        row.aligned(row.factors)[j] = 1;
      }
      for (Index block = 0; block < kColumns; block += kColumnBlock)
        mehler_coefficients(k.data() + block, columns.data() + block * kMehlerTerms);
      mehler_coefficients(h.data(), rows.data());
      for (Index i = 0; i < 4; ++i) {
        std::vector<double> coefficients;
        for (Index t = 0; t < kMehlerTerms; ++t) coefficients.push_back(rows[t * kColumnBlock + i]);
        std::fill_n(view.sums, kColumns, 0.0);
        const bool beyond =
            moment_row_functions(level).mehler(view, coefficients.data(), columns.data(), terms);
        EXPECT_EQ(beyond, reach > kMehlerReach);
        for (Index j = 0; j < kColumns; ++j) {
          const double rho = reach * view.cosines[j], here = h[static_cast<std::size_t>(i)];
          const double there = k[static_cast<std::size_t>(j)];
          const double want = std::abs(rho) > kMehlerReach ? 0.0 : relu_moment(here, there, rho);
          EXPECT_NEAR(view.sums[j], want, kMehlerTolerance + 1e-14 * (1 + std::abs(here * there)))
              << name(level) << " h " << here << " k " << there << " rho " << rho;
        }
      }
    }
}

}  // namespace
}  // namespace headlens::cpu
