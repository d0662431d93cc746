// Matrices as vectors: inner products, norms, sums, copies and transposes.
//
// Products are summed in double, row by row, whatever the precision of the entries: the rounding error grows
// with the columns and with the rows, not with their product.
#pragma once

#include <algorithm>
#include <cmath>

#include "linalg/matrix.hpp"

namespace headlens {

template <class T>
double inner_product(MatrixView<const T> a, MatrixView<const T> b) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i) {
    double row = 0;
    for (Index j = 0; j < a.cols; ++j) row += static_cast<double>(a(i, j)) * static_cast<double>(b(i, j));
    sum += row;
  }
  return sum;
}
inline double inner_product(const Matrix<double>& a, const Matrix<double>& b) {
  return inner_product(a.view(), b.view());
}

inline double squared_norm(MatrixView<const double> a) { return inner_product(a, a); }

inline double dot(const double* a, const double* b, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += a[j] * b[j];
  return sum;
}
// Divides the row by its length, which is returned.
inline double normalise(double* row, Index size) {
  const double length = std::sqrt(dot(row, row, size)), inverse = 1 / length;
  for (Index j = 0; j < size; ++j) row[j] *= inverse;
  return length;
}

template <class T>
Matrix<T> copy_of(const Matrix<T>& a) {
  Matrix<T> out(a.rows(), a.cols());
  std::copy_n(a.data(), a.rows() * a.cols(), out.data());
  return out;
}

template <class T>
Matrix<T> copy_of(MatrixView<const T> a) {
  Matrix<T> out(a.rows, a.cols);
  copy_rows(a, out.view());
  return out;
}

inline Matrix<double> transposed(MatrixView<const double> a) {
  Matrix<double> out(a.cols, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(j, i) = a(i, j);
  return out;
}

inline Matrix<double> side_by_side(MatrixView<const double> a, MatrixView<const double> b) {
  Matrix<double> out(a.rows, a.cols + b.cols);
  copy_rows(a, out.view().block(0, 0, a.rows, a.cols));
  copy_rows(b, out.view().block(0, a.cols, b.rows, b.cols));
  return out;
}
// [f a, g b]
inline Matrix<double> side_by_side(const Matrix<double>& a, double f, const Matrix<double>& b, double g) {
  Matrix<double> out(a.rows(), a.cols() + b.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index j = 0; j < a.cols(); ++j) out(i, j) = f * a(i, j);
    for (Index j = 0; j < b.cols(); ++j) out(i, a.cols() + j) = g * b(i, j);
  }
  return out;
}

// to += factor * from
template <class T>
void add(T factor, const Matrix<T>& from, Matrix<T>& to) {
  for (Index i = 0; i < from.rows() * from.cols(); ++i) to.data()[i] += factor * from.data()[i];
}

}  // namespace headlens
