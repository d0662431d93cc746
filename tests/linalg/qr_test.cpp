#include "linalg/qr.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

Matrix<double> gaussian(Index rows, Index cols, std::uint64_t seed) {
  Matrix<double> out(rows, cols);
  Stream stream(seed, "qr test", 0);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

Matrix<double> copied(const Matrix<double>& a) {
  Matrix<double> out(a.rows(), a.cols());
  copy_rows(a, out);
  return out;
}

double dot(const Matrix<double>& a, Index i, const Matrix<double>& b, Index j) {
  double sum = 0;
  for (Index r = 0; r < a.rows(); ++r) sum += a(r, i) * b(r, j);
  return sum;
}

TEST(TallQr, FactorTimesItsTransposeIsTheGramMatrix) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {5, 5}, {7, 3}, {200, 65}, {130, 129}}) {
    const Matrix<double> a = gaussian(rows, cols, static_cast<std::uint64_t>(rows + cols));
    const Matrix<double> lower = TallQr(copied(a)).factor();
    for (Index i = 0; i < cols; ++i)
      for (Index j = 0; j <= i; ++j) {
        double product = 0;
        for (Index q = 0; q <= j; ++q) product += lower(i, q) * lower(j, q);
        // Both sides are sums of `rows` products of numbers of size one.
        EXPECT_NEAR(product, dot(a, i, a, j), 1e-14 * static_cast<double>(rows + cols))
            << rows << " x " << cols;
        if (j < i) {
          EXPECT_EQ(lower(j, i), 0);
        }
      }
  }
}

TEST(TallQr, RotationKeepsNormsAndSplitsOffTheRange) {
  const Index rows = 90, cols = 20;
  const Matrix<double> a = gaussian(rows, cols, 1), b = gaussian(rows, 3, 2);
  const TallQr qr(copied(a));
  Matrix<double> rotated = copied(b), range = copied(a);
  qr.rotate(rotated);
  qr.rotate(range);
  for (Index c = 0; c < 3; ++c) EXPECT_NEAR(dot(rotated, c, rotated, c), dot(b, c, b, c), 1e-12);
  const Matrix<double> lower = qr.factor();
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c) EXPECT_NEAR(range(r, c), r <= c ? lower(c, r) : 0, 1e-13);
  // The first rows solve least squares: a^T (b - a x) = 0.
  Matrix<double> x(cols, 3);
  copy_rows(rotated.view().block(0, 0, cols, 3), x);
  trsm(Side::left, Trans::yes, lower, x);
  Matrix<double> left = copied(b);
  gemm(Trans::no, Trans::no, -1.0, a.view(), x.view(), 1.0, left.view());
  for (Index i = 0; i < cols; ++i)
    for (Index c = 0; c < 3; ++c) EXPECT_NEAR(dot(a, i, left, c), 0, 1e-12);
}

// LAPACK writes to the reflectors while it applies them.
TEST(TallQr, RotatesOnSeveralThreadsAtOnce) {
  const TallQr qr(gaussian(300, 40, 1));
  Matrix<double> expected = gaussian(300, 7, 2);
  qr.rotate(expected);
  std::vector<Matrix<double>> rotated(64);
  parallel_for(4, 64, [&](Index i, int) {
    rotated[std::size_t(i)] = gaussian(300, 7, 2);
    qr.rotate(rotated[std::size_t(i)]);
  });
  for (const Matrix<double>& one : rotated)
    EXPECT_TRUE(std::equal(one.data(), one.data() + 300 * 7, expected.data()));
}

// A Gram matrix would lose a direction of 1e-11 in rounding: its square is below eps.
TEST(TallQr, KeepsDirectionsThatAGramMatrixLoses) {
  const Index rows = 60;
  Matrix<double> a = gaussian(rows, 2, 3);
  const Matrix<double> other = gaussian(rows, 1, 4);
  for (Index r = 0; r < rows; ++r) a(r, 1) = a(r, 0) + 1e-11 * other(r, 0);
  const double along = dot(a, 0, other, 0) / std::sqrt(dot(a, 0, a, 0));
  const double expected = 1e-11 * std::sqrt(dot(other, 0, other, 0) - along * along);
  const Matrix<double> lower = TallQr(copied(a)).factor();
  // Rounding of a itself: eps |a| = 2e-15, beside 7e-11.
  EXPECT_NEAR(std::abs(lower(1, 1)) / expected, 1, 1e-3);
}

}  // namespace
}  // namespace headlens
