#include "automatic/spectrum.hpp"

#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"

namespace headlens::automatic {
namespace {

// Eigenvalues below this share of the largest are rounding.
double rounding(Index size) { return 8 * static_cast<double>(size) * std::numeric_limits<double>::epsilon(); }

// The eigenvectors above rounding, as columns, and their values.
Matrix<double> range_of(MatrixView<const double> a, std::vector<double>& values) {
  const SymmetricEigen eigen = symmetric_eigen(a);
  require(eigen.ok(), "the eigenvalues of a kernel matrix were not found: scale the tokens or y");
  const Index n = a.rows;
  const double least = rounding(n) * std::max(0.0, eigen.values.back());
  Index first = 0;
  while (first < n && eigen.values[static_cast<std::size_t>(first)] <= least) ++first;
  values.assign(eigen.values.begin() + first, eigen.values.end());
  Matrix<double> out(n, n - first);
  for (Index i = 0; i < n; ++i)
    for (Index k = first; k < n; ++k) out(i, k - first) = eigen.vectors(k, i);
  return out;
}

void scale_columns(MatrixView<double> a, const std::vector<double>& values, double power) {
  std::vector<double> factors;
  for (const double value : values) factors.push_back(std::pow(value, power));
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k) a(i, k) *= factors[static_cast<std::size_t>(k)];
}

Matrix<double> product(Trans ta, MatrixView<const double> a, MatrixView<const double> b, int threads) {
  Matrix<double> out(ta == Trans::no ? a.rows : a.cols, b.cols);
  multiply(ta, Trans::no, 1, a, b, 0, out, threads);
  return out;
}

void subtract_means(MatrixView<double> a) {
  const std::vector<double> means = column_means(a);
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k) a(i, k) -= means[static_cast<std::size_t>(k)];
}

double sum(const std::vector<double>& values) {
  double out = 0;
  for (const double value : values) out += value;
  return out;
}

// U^T y; the columns of U sum to zero, so y needs no centring but for rounding.
Matrix<double> projected(const Spectrum& spectrum, MatrixView<const double> y, Matrix<double>& centred) {
  centred = Matrix<double>(y.rows, y.cols);
  copy_rows(y, centred);
  subtract_means(centred);
  return product(Trans::yes, spectrum.u, centred, 1);
}

}  // namespace

std::vector<double> column_means(MatrixView<const double> a) {
  std::vector<double> out(static_cast<std::size_t>(a.cols));
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j)
      out[static_cast<std::size_t>(j)] += a(i, j) / static_cast<double>(a.rows);
  return out;
}

Spectrum decompose(Matrix<double> kernel) {
  Spectrum out;
  out.means = column_means(kernel);
  const Index n = kernel.rows();
  const double mean = sum(out.means) / static_cast<double>(n);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      kernel(i, j) +=
          mean - (out.means[static_cast<std::size_t>(i)] + out.means[static_cast<std::size_t>(j)]);
  out.u = range_of(kernel, out.values);
  subtract_means(out.u);  // what rounding left
  out.dual = Matrix<double>(n, out.u.cols());
  copy_rows(out.u, out.dual);
  out.mean_value = sum(out.values) / static_cast<double>(n);
  return out;
}

Spectrum decompose(Matrix<double> kernel, Matrix<double> kept, int threads) {
  Spectrum out;
  out.means = column_means(kernel);
  std::vector<double> values;
  Matrix<double> basis = range_of(kept, values);  // K_mm = V diag(values) V^T
  scale_columns(basis, values, -0.5);
  Matrix<double> features =
      product(Trans::no, kernel, basis, threads);  // Z, so that Z Z^T is Nystrom's kernel
  subtract_means(features);
  Matrix<double> gram = Matrix<double>::zeros(features.cols(), features.cols());
  add_inner(features.view(), gram, threads);
  const Matrix<double> axes = range_of(gram, out.values);  // Z^T Z = Q diag(s) Q^T
  out.u = product(Trans::no, features, axes, threads);
  scale_columns(out.u, out.values, -0.5);
  out.dual = product(Trans::no, basis, axes, threads);
  scale_columns(out.dual, out.values, 0.5);
  out.mean_value = sum(out.values) / static_cast<double>(kernel.rows());
  return out;
}

LeaveOneOut leave_one_out(const Spectrum& spectrum, MatrixView<const double> y, double penalty) {
  const Index n = y.rows, q = y.cols, r = spectrum.u.cols();
  Matrix<double> centred;
  Matrix<double> z = projected(spectrum, y, centred);
  std::vector<double> kept(static_cast<std::size_t>(r));  // 1 - t
  for (Index k = 0; k < r; ++k) {
    const double value = spectrum.values[static_cast<std::size_t>(k)];
    kept[static_cast<std::size_t>(k)] = value / (value + penalty);
    for (Index c = 0; c < q; ++c) z(k, c) *= kept[static_cast<std::size_t>(k)];
  }
  LeaveOneOut out{penalty, 0, product(Trans::no, spectrum.u, z, 1),
                  std::vector<double>(static_cast<std::size_t>(n))};
  for (Index i = 0; i < n; ++i) {
    const double* row = spectrum.u.view().row(i);
    double leverage = 1 / static_cast<double>(n);
    for (Index k = 0; k < r; ++k) leverage += row[k] * row[k] * kept[static_cast<std::size_t>(k)];
    // Where a set is fitted whatever its label is, nothing can be said of it without the set.
    const double free =
        std::max(1 - leverage, std::numeric_limits<double>::epsilon() * static_cast<double>(n));
    out.leverage[static_cast<std::size_t>(i)] = free;
    for (Index c = 0; c < q; ++c) {
      const double error = (centred(i, c) - out.predictions(i, c)) / free;
      out.predictions(i, c) = y(i, c) - error;
      out.error += error * error / static_cast<double>(n * q);
    }
  }
  return out;
}

LeaveOneOut best_penalty(const Spectrum& spectrum, MatrixView<const double> y,
                         const std::vector<double>& multiples) {
  LeaveOneOut best;
  for (const double multiple : multiples) {
    heed();
    LeaveOneOut one = leave_one_out(spectrum, y, multiple * spectrum.mean_value);
    if (best.penalty == 0 || one.error < best.error) best = std::move(one);
  }
  return best;
}

Matrix<double> coefficients(const Spectrum& spectrum, MatrixView<const double> y, double penalty) {
  Matrix<double> centred;
  Matrix<double> z = projected(spectrum, y, centred);
  for (Index k = 0; k < z.rows(); ++k)
    for (Index c = 0; c < z.cols(); ++c) z(k, c) /= spectrum.values[static_cast<std::size_t>(k)] + penalty;
  return product(Trans::no, spectrum.dual, z, 1);
}

}  // namespace headlens::automatic
