// Quadratic forms and solves with A + s I through the band, against the closed form for a known spectrum.
#include "linalg/shifted_band.hpp"

#include <gtest/gtest.h>

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

// A = sum_k values[k] v_k v_k^T, all known.
struct Known {
  std::vector<double> values;
  Matrix<double> vectors;
  Matrix<double> a;
  double mean_diagonal = 0;
};

Known known_matrix(Index n, double decades) {
  Known out;
  for (Index k = 0; k < n; ++k) out.values.push_back(std::pow(10.0, -decades * double(k) / double(n)));
  out.vectors = random_orthogonal(n, "v");
  out.a = with_spectrum(out.values, out.vectors);
  for (const double value : out.values) out.mean_diagonal += value / double(n);
  return out;
}

// x = (A + s I)^-1 z from the spectrum.
Matrix<double> exact_solve(const Known& known, double shift, MatrixView<const double> rows) {
  auto coefficients = product(rows, transposed(known.vectors));
  for (Index i = 0; i < rows.rows; ++i)
    for (Index k = 0; k < rows.cols; ++k) coefficients(i, k) /= known.values[std::size_t(k)] + shift;
  return product(coefficients, known.vectors);
}

// The band sees A + dA and z + dz with |dA| <= c n eps |A + s I|, |dz| <= c n eps |z|, which moves the form
// by x^T dA x + 2 x^T dz to first order; its own solves add c b eps cond(L). The reference errs as much: c
// = 10.
double form_bound(Index n, double largest, double smallest, double x, double z, double form) {
  const double transform = double(n) * (largest * x * x + 2 * x * z);
  const double solve = 2 * double(kBandWidth) * std::sqrt(largest / smallest) * form;
  return 10 * kEps * (transform + solve);
}

const double kShifts[] = {1e-10, 1e-8, 1e-5, 1e-2, 1.0, 1e3, 1e6};  // of the mean diagonal

TEST(ShiftedBand, QuadraticFormsMatchTheSpectrum) {
  for (const Index n : {1, 2, 31, 32, 33, 64, 65, 97, 257, 300}) {
    const Known known = known_matrix(n, 6);
    const auto rows = random_matrix(140, n, "rows");
    const BandReduction<double> band = BandReduction<double>::reduce(copy_of(known.a), 2);
    auto z = copy_of(rows);
    band.to_band_basis(z, 2);
    for (const double relative : kShifts) {
      const double shift = relative * known.mean_diagonal;
      const ShiftedBand<double> shifted(band, shift);
      ASSERT_TRUE(shifted.result().ok()) << n << " " << relative;
      std::vector<double> forms(140, -1.0);
      shifted.quadratic_forms(z, forms.data(), 2);
      const auto x = exact_solve(known, shift, rows);
      for (Index i = 0; i < 140; ++i) {
        const double want = dot(x.view().row(i), rows.view().row(i), n);
        const double bound =
            form_bound(n, known.values.front() + shift, known.values.back() + shift,
                       norm(x.view().block(i, 0, 1, n)), norm(rows.view().block(i, 0, 1, n)), want);
        ASSERT_NEAR(forms[std::size_t(i)], want, bound) << n << " shift " << relative;
      }
    }
  }
}

// Leave-one-out in the dual: the diagonal of (A + s I)^-1.
TEST(ShiftedBand, DiagonalOfTheInverse) {
  const Index n = 300;
  const Known known = known_matrix(n, 4);
  const BandReduction<double> band = BandReduction<double>::reduce(copy_of(known.a), 1);
  const auto q = band.basis(1);
  const auto unit = identity(n);
  for (const double relative : kShifts) {
    const double shift = relative * known.mean_diagonal;
    std::vector<double> forms(std::size_t(n), 0.0);
    ShiftedBand<double>(band, shift).quadratic_forms(q, forms.data(), 1);
    const auto inverse = exact_solve(known, shift, unit);
    for (Index i = 0; i < n; ++i) {
      const double bound = form_bound(n, known.values.front() + shift, known.values.back() + shift,
                                      norm(inverse.view().block(i, 0, 1, n)), 1, inverse(i, i));
      ASSERT_NEAR(forms[std::size_t(i)], inverse(i, i), bound) << relative;
    }
  }
}

TEST(ShiftedBand, SolvesAndGivesQuadraticForms) {
  for (const Index n : {1, 31, 32, 33, 65, 300}) {
    const Known known = known_matrix(n, 3);
    const BandReduction<double> band = BandReduction<double>::reduce(copy_of(known.a), 1);
    const auto rows = random_matrix(5, n, "rows");
    const double shift = 1e-3;
    const ShiftedBand<double> shifted(band, shift);
    auto z = copy_of(rows);
    band.to_band_basis(z, 1);
    const auto before = copy_of(z);
    std::vector<double> forms(5);
    shifted.quadratic_forms(z, forms.data(), 1);
    shifted.solve(z, 1);
    const double condition = (1 + shift) / (known.values.back() + shift);
    for (Index i = 0; i < 5; ++i) {
      const double want = dot(before.view().row(i), z.view().row(i), n);
      EXPECT_NEAR(forms[std::size_t(i)], want, 10 * double(n) * kEps * condition * want);
    }
    band.from_band_basis(z, 1);
    const auto want = exact_solve(known, shift, rows);
    EXPECT_LE(distance(z, want), 10 * double(n) * kEps * condition * norm(want)) << n;
  }
}

TEST(ShiftedBand, IgnoresThreads) {
  const Known known = known_matrix(300, 3);
  const BandReduction<double> band = BandReduction<double>::reduce(copy_of(known.a), 1);
  const ShiftedBand<double> shifted(band, 1e-4);
  const auto rows = random_matrix(700, 300, "rows");
  Matrix<double> forms(1, 700), solved = copy_of(rows);
  shifted.quadratic_forms(rows, forms.data(), 1);
  shifted.solve(solved, 1);
  for (const int threads : kThreadCounts) {
    Matrix<double> forms2(1, 700), solved2 = copy_of(rows);
    shifted.quadratic_forms(rows, forms2.data(), threads);
    shifted.solve(solved2, threads);
    EXPECT_TRUE(same_bits(forms, forms2) && same_bits(solved, solved2)) << threads;
  }
}

TEST(ShiftedBand, EmptyMatrix) {
  const BandReduction<double> band = BandReduction<double>::reduce(Matrix<double>(0, 0), 1);
  const ShiftedBand<double> shifted(band, 1.0);
  EXPECT_TRUE(shifted.result().ok());
  double form = -1;
  shifted.quadratic_forms(MatrixView<const double>(nullptr, 1, 0), &form, 1);
  EXPECT_EQ(form, 0);
}

TEST(ShiftedBand, IndefiniteIsAResult) {
  auto a = identity(100);
  a(70, 70) = -3;
  const BandReduction<double> band = BandReduction<double>::reduce(std::move(a), 1);
  const ShiftedBand<double> shifted(band, 1.0);
  EXPECT_EQ(shifted.result().status, CholeskyStatus::not_positive_definite);
  Matrix<double> rows(1, 100);
  EXPECT_ANY_THROW(shifted.solve(rows, 1));
  EXPECT_TRUE(ShiftedBand<double>(band, 3.5).result().ok());
}

}  // namespace
}  // namespace headlens
