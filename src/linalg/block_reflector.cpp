#include "linalg/block_reflector.hpp"

#include <algorithm>

namespace headlens {

void reflect_rows(MatrixView<const double> v, MatrixView<const double> t, Trans trans,
                  MatrixView<double> rows) {
  Matrix<double> along(rows.rows, v.cols), scaled(rows.rows, v.cols);
  gemm(Trans::no, Trans::no, 1.0, rows, v, 0.0, along);
  gemm(Trans::no, trans, 1.0, along, t, 0.0, scaled);
  gemm(Trans::no, Trans::yes, -1.0, scaled, v, 1.0, rows);
}

void reflect_columns(MatrixView<const double> v, MatrixView<const double> t, MatrixView<double> columns) {
  Matrix<double> along(v.cols, columns.cols), scaled(v.cols, columns.cols);
  gemm(Trans::yes, Trans::no, 1.0, v, columns, 0.0, along);
  gemm(Trans::no, Trans::no, 1.0, t, along, 0.0, scaled);
  gemm(Trans::no, Trans::no, -1.0, v, scaled, 1.0, columns);
}

Matrix<double> join_reflectors(MatrixView<const double> v, MatrixView<const double> t,
                               MatrixView<const double> next) {
  const Index first = t.rows, second = next.rows;
  auto joined = Matrix<double>::zeros(first + second, first + second);
  Matrix<double> cross(first, second), half(first, second);
  gemm(Trans::yes, Trans::no, 1.0, v.block(0, 0, v.rows, first), v.block(0, first, v.rows, second), 0.0,
       cross);
  gemm(Trans::no, Trans::no, 1.0, t, cross, 0.0, half);
  gemm(Trans::no, Trans::no, -1.0, half, next, 0.0, joined.view().block(0, first, first, second));
  for (Index i = 0; i < first; ++i) std::copy_n(t.row(i), first, joined.view().row(i));
  for (Index i = 0; i < second; ++i) std::copy_n(next.row(i), second, joined.view().row(first + i) + first);
  return joined;
}

}  // namespace headlens
