// Matrices for the tests of linalg, and the obvious way to compute with them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/matrix.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::reference {

inline constexpr double kEps = std::numeric_limits<double>::epsilon();
inline constexpr double kEpsFloat = std::numeric_limits<float>::epsilon();
inline constexpr int kThreadCounts[] = {1, 2, 3};

template <class T = double>
Matrix<T> random_matrix(Index rows, Index cols, std::string_view purpose) {
  Matrix<T> out(rows, cols);
  Stream stream(2024, purpose);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = static_cast<T>(stream.normal());
  return out;
}

inline Matrix<double> copy_of(MatrixView<const double> a) {
  Matrix<double> out(a.rows, a.cols);
  copy_rows(a, out);
  return out;
}

inline Matrix<double> to_double(MatrixView<const float> a) {
  Matrix<double> out(a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = a(i, j);
  return out;
}

using headlens::transposed;

inline Matrix<double> absolute(MatrixView<const double> a) {
  Matrix<double> out(a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = std::abs(a(i, j));
  return out;
}

inline Matrix<double> product(MatrixView<const double> a, MatrixView<const double> b) {
  auto out = Matrix<double>::zeros(a.rows, b.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k) {
      const double factor = a(i, k);
      const double* from = b.row(k);
      double* to = out.view().row(i);
      for (Index j = 0; j < b.cols; ++j) to[j] += factor * from[j];
    }
  return out;
}

inline double norm(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

inline double distance(MatrixView<const double> a, MatrixView<const double> b) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += (a(i, j) - b(i, j)) * (a(i, j) - b(i, j));
  return std::sqrt(sum);
}

inline Matrix<double> identity(Index n) {
  auto out = Matrix<double>::zeros(n, n);
  for (Index i = 0; i < n; ++i) out(i, i) = 1;
  return out;
}

inline Matrix<double> random_symmetric(Index n, std::string_view purpose) {
  auto out = random_matrix(n, n, purpose);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j) out(j, i) = out(i, j);
  return out;
}

// Well-conditioned and positive definite: a random symmetric matrix, made diagonally dominant.
inline Matrix<double> random_positive(Index n, std::string_view purpose) {
  auto out = random_symmetric(n, purpose);
  for (Index i = 0; i < n; ++i) {
    double sum = 1;
    for (Index j = 0; j < n; ++j) sum += std::abs(out(i, j));
    out(i, i) = sum;
  }
  return out;
}

// Orthonormal rows by Gram-Schmidt, twice.
inline Matrix<double> random_orthogonal(Index n, std::string_view purpose) {
  auto out = random_matrix(n, n, purpose);
  for (Index i = 0; i < n; ++i) {
    double* x = out.view().row(i);
    for (int pass = 0; pass < 2; ++pass)
      for (Index k = 0; k < i; ++k) {
        const double* y = out.view().row(k);
        double dot = 0;
        for (Index j = 0; j < n; ++j) dot += x[j] * y[j];
        for (Index j = 0; j < n; ++j) x[j] -= dot * y[j];
      }
    double sum = 0;
    for (Index j = 0; j < n; ++j) sum += x[j] * x[j];
    for (Index j = 0; j < n; ++j) x[j] /= std::sqrt(sum);
  }
  return out;
}

// sum_k values[k] v_k v_k^T with v_k the rows of `vectors`
inline Matrix<double> with_spectrum(const std::vector<double>& values, const Matrix<double>& vectors) {
  auto scaled = copy_of(vectors);
  for (Index k = 0; k < scaled.rows(); ++k)
    for (Index j = 0; j < scaled.cols(); ++j) scaled(k, j) *= values[std::size_t(k)];
  return product(transposed(vectors), scaled);
}

template <class T>
bool same_bits(const Matrix<T>& a, const Matrix<T>& b) {
  const auto bytes = static_cast<std::size_t>(a.rows() * a.cols()) * sizeof(T);
  return a.rows() == b.rows() && a.cols() == b.cols() &&
         (bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0);
}

// Fills the strict upper triangle with a value that nobody may read or write.
inline void poison_upper(MatrixView<double> a) {
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = i + 1; j < a.cols; ++j) a(i, j) = std::numeric_limits<double>::quiet_NaN();
}

inline bool upper_is_poisoned(MatrixView<const double> a) {
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = i + 1; j < a.cols; ++j)
      if (!std::isnan(a(i, j))) return false;
  return true;
}

}  // namespace headlens::reference
