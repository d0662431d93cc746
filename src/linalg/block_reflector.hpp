// Products with I - V T V^T: several Householder reflections applied at once (compact WY form).
// V is m x w, T is w x w and upper triangular. 4 m w flops for each row or column transformed.
//
// Schreiber, Van Loan, "A storage-efficient WY representation for products of Householder transformations",
// 1989.
#pragma once

#include "linalg/blas.hpp"

namespace headlens {

// rows = rows (I - V op(T) V^T)
template <class T>
void reflect_rows(MatrixView<const T> v, MatrixView<const T> t, Trans trans, MatrixView<T> rows);

// columns = (I - V T V^T) columns
template <class T>
void reflect_columns(MatrixView<const T> v, MatrixView<const T> t, MatrixView<T> columns);

// The reflections of t (w x w, for the first w columns of v) followed by those of `next` (for the remaining
// columns) as one: [[t, -t (V1^T V2) next], [0, next]].
template <class T>
Matrix<T> join_reflectors(MatrixView<const T> v, MatrixView<const T> t, MatrixView<const T> next);

}  // namespace headlens
