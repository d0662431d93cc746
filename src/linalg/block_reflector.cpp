#include "linalg/block_reflector.hpp"

#include <algorithm>

namespace headlens {

template <class T>
void reflect_rows(MatrixView<const T> v, MatrixView<const T> t, Trans trans, MatrixView<T> rows) {
  Matrix<T> along(rows.rows, v.cols), scaled(rows.rows, v.cols);
  gemm(Trans::no, Trans::no, T{1}, rows, v, T{0}, along);
  gemm(Trans::no, trans, T{1}, along, t, T{0}, scaled);
  gemm(Trans::no, Trans::yes, T{-1}, scaled, v, T{1}, rows);
}

template <class T>
void reflect_columns(MatrixView<const T> v, MatrixView<const T> t, MatrixView<T> columns) {
  Matrix<T> along(v.cols, columns.cols), scaled(v.cols, columns.cols);
  gemm(Trans::yes, Trans::no, T{1}, v, columns, T{0}, along);
  gemm(Trans::no, Trans::no, T{1}, t, along, T{0}, scaled);
  gemm(Trans::no, Trans::no, T{-1}, v, scaled, T{1}, columns);
}

template <class T>
Matrix<T> join_reflectors(MatrixView<const T> v, MatrixView<const T> t, MatrixView<const T> next) {
  const Index first = t.rows, second = next.rows;
  auto joined = Matrix<T>::zeros(first + second, first + second);
  Matrix<T> cross(first, second), half(first, second);
  gemm(Trans::yes, Trans::no, T{1}, v.block(0, 0, v.rows, first), v.block(0, first, v.rows, second), T{0},
       cross);
  gemm(Trans::no, Trans::no, T{1}, t, cross, T{0}, half);
  gemm(Trans::no, Trans::no, T{-1}, half, next, T{0}, joined.view().block(0, first, first, second));
  for (Index i = 0; i < first; ++i) std::copy_n(t.row(i), first, joined.view().row(i));
  for (Index i = 0; i < second; ++i) std::copy_n(next.row(i), second, joined.view().row(first + i) + first);
  return joined;
}

template void reflect_rows(MatrixView<const float>, MatrixView<const float>, Trans, MatrixView<float>);
template void reflect_columns(MatrixView<const float>, MatrixView<const float>, MatrixView<float>);
template Matrix<float> join_reflectors(MatrixView<const float>, MatrixView<const float>,
                                       MatrixView<const float>);
template void reflect_rows(MatrixView<const double>, MatrixView<const double>, Trans, MatrixView<double>);
template void reflect_columns(MatrixView<const double>, MatrixView<const double>, MatrixView<double>);
template Matrix<double> join_reflectors(MatrixView<const double>, MatrixView<const double>,
                                        MatrixView<const double>);

}  // namespace headlens
