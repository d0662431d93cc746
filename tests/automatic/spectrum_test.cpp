// Leave-one-out from an eigendecomposition against fits that leave every set out in turn.
#include <gtest/gtest.h>

#include "automatic/spectrum.hpp"
#include "base/random.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"

namespace headlens::automatic {
namespace {

Matrix<double> random_rows(Index rows, Index cols, const char* purpose) {
  Stream stream(5, purpose);
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = stream.normal();
  return out;
}

Matrix<double> kernel_between(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> out(a.rows(), b.rows());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < b.rows(); ++j) {
      double distance = 0;
      for (Index k = 0; k < a.cols(); ++k) distance += std::pow(a(i, k) - b(j, k), 2);
      out(i, j) = std::exp(-0.3 * distance);
    }
  return out;
}

// Ridge with a free intercept on features (n, r): minimise |y - F w - b|^2 + penalty |w|^2, by its normal
// equations; predicts the last row from the others.
double predict_last(const Matrix<double>& features, const Matrix<double>& y, Index without, double penalty) {
  const Index n = features.rows(), r = features.cols();
  Matrix<double> a = Matrix<double>::zeros(r + 1, r + 1), b = Matrix<double>::zeros(r + 1, 1);
  const auto at = [&](Index i, Index k) { return k < r ? features(i, k) : 1.0; };
  for (Index i = 0; i < n; ++i) {
    if (i == without) continue;
    for (Index k = 0; k <= r; ++k) {
      b(k, 0) += at(i, k) * y(i, 0);
      for (Index l = 0; l <= r; ++l) a(k, l) += at(i, k) * at(i, l);
    }
  }
  for (Index k = 0; k < r; ++k) a(k, k) += penalty;
  EXPECT_TRUE(cholesky(a, 1).ok());
  cholesky_solve(a, b, 1);
  double out = 0;
  for (Index k = 0; k <= r; ++k) out += at(without, k) * b(k, 0);
  return out;
}

// F with F F^T = K: the rows of the Cholesky factor.
Matrix<double> features_of(Matrix<double> kernel) {
  EXPECT_TRUE(cholesky(kernel, 1).ok());
  for (Index i = 0; i < kernel.rows(); ++i)
    for (Index j = i + 1; j < kernel.rows(); ++j) kernel(i, j) = 0;
  return kernel;
}

Matrix<double> copy_of(const Matrix<double>& from) {
  Matrix<double> out(from.rows(), from.cols());
  copy_rows(from, out);
  return out;
}

void expect_loo(const Spectrum& spectrum, const Matrix<double>& features, const Matrix<double>& y) {
  for (const double penalty : {1e-3, 0.1, 3.0}) {
    const LeaveOneOut loo = leave_one_out(spectrum, y, penalty);
    // The normal equations square a condition number of at most |K| / penalty < 1e5.
    for (Index i = 0; i < y.rows(); ++i)
      EXPECT_NEAR(loo.predictions(i, 0), predict_last(features, y, i, penalty), 1e-9) << i << " " << penalty;
  }
}

TEST(Spectrum, LeavesEverySetOut) {
  const Matrix<double> x = random_rows(25, 3, "x"), y = random_rows(25, 1, "y");
  const Matrix<double> kernel = kernel_between(x, x);
  expect_loo(decompose(copy_of(kernel)), features_of(copy_of(kernel)), y);
}

TEST(Spectrum, LeavesEverySetOutWithCentres) {
  const Matrix<double> x = random_rows(40, 3, "x"), z = random_rows(9, 3, "z"), y = random_rows(40, 1, "y");
  const Matrix<double> cross = kernel_between(x, z), kept = kernel_between(z, z);
  // Nystrom features: K_nm L^-T with K_mm = L L^T.
  const Matrix<double> lower = features_of(copy_of(kept));
  Matrix<double> features = copy_of(cross);
  trsm(Side::right, Trans::yes, lower, features);
  expect_loo(decompose(copy_of(cross), copy_of(kept), 1), features, y);
}

TEST(Spectrum, AllSetsAsCentresGiveTheKernelItself) {
  const Matrix<double> x = random_rows(20, 3, "x"), y = random_rows(20, 1, "y");
  const Matrix<double> kernel = kernel_between(x, x);
  const Spectrum whole = decompose(copy_of(kernel)), nystrom = decompose(copy_of(kernel), copy_of(kernel), 1);
  const LeaveOneOut a = leave_one_out(whole, y, 0.05), b = leave_one_out(nystrom, y, 0.05);
  for (Index i = 0; i < 20; ++i) EXPECT_NEAR(a.predictions(i, 0), b.predictions(i, 0), 1e-9);
}

TEST(Spectrum, CoefficientsPredictTheTrainingSets) {
  const Matrix<double> x = random_rows(20, 3, "x"), y = random_rows(20, 2, "y");
  const Matrix<double> kernel = kernel_between(x, x);
  const Spectrum spectrum = decompose(copy_of(kernel));
  const double penalty = 0.05;
  const Matrix<double> a = coefficients(spectrum, y, penalty);
  const LeaveOneOut loo = leave_one_out(spectrum, y, penalty);
  const std::vector<double> means = column_means(y);
  for (Index i = 0; i < 20; ++i)
    for (Index c = 0; c < 2; ++c) {
      double fitted = means[static_cast<std::size_t>(c)];
      for (Index j = 0; j < 20; ++j)
        fitted += (kernel(i, j) - spectrum.means[static_cast<std::size_t>(j)]) * a(j, c);
      // y - f = (1 - h) (y - f_-i)
      const double left = loo.leverage[static_cast<std::size_t>(i)] * (y(i, c) - loo.predictions(i, c));
      EXPECT_NEAR(y(i, c) - fitted, left, 1e-11);
    }
}

// The constant vector is an eigenvector of rounding size. Taken for a real one, small penalties looked good.
TEST(Spectrum, SmallPenaltiesAreJudgedRight) {
  const Matrix<double> x = random_rows(60, 12, "wide"), y = random_rows(60, 1, "noise");
  Matrix<double> kernel(60, 60);
  for (Index i = 0; i < 60; ++i)
    for (Index j = 0; j < 60; ++j) {
      double distance = 0;
      for (Index k = 0; k < 12; ++k) distance += std::pow(x(i, k) - x(j, k), 2);
      kernel(i, j) = std::exp(-4e-4 * distance);
    }
  const Spectrum spectrum = decompose(copy_of(kernel));
  const double least = leave_one_out(spectrum, y, 1e-10 * spectrum.mean_value).error;
  const double more = leave_one_out(spectrum, y, 1e-5 * spectrum.mean_value).error;
  // Noise cannot be predicted: less penalty is no better.
  EXPECT_GT(least, 0.9 * more);
  EXPECT_GT(least, 1.0);
}

}  // namespace
}  // namespace headlens::automatic
