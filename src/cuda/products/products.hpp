// What is done with blocks of Phi, (rows, columns) by rows on the device. Products are summed in double, in
// an order that depends on neither the block nor the run.
#pragma once

#include <cuda_fp16.h>

#include "cuda/device.hpp"

namespace headlens::cuda {

constexpr Index kSumRows = 512;  // rows to a partial sum; blocks hold whole ones, but for the last

// out (rows, q) = phi v (columns, q). For a few outputs: q passes over phi.
template <class T>
void add_forward(const T* phi, Index rows, Index columns, const double* v, Index q, double* out);
// out (columns, q) += phi^T r (rows, q). `partial`: adjoint_items() doubles.
template <class T>
void add_adjoint(const T* phi, Index rows, Index columns, const double* r, Index q, double* partial,
                 double* out);
Index adjoint_items(Index rows, Index columns, Index q);

// out (rows, columns)_ij = block (rows, stride)_i,order[j]
template <class T>
void take_columns(const T* block, Index rows, Index stride, const std::int64_t* order, Index columns, T* out);

// out[i] = |row i|^2
template <class T>
void row_squares(const T* phi, Index rows, Index columns, double* out);

// Means of columns from sums; what is left of a column that does not vary is rounding, and keep = 0 clears
// it.
template <class T>
struct ColumnSums {
  DeviceArray<double> sums;    // (columns)
  DeviceArray<T> lows, highs;  // (columns)
};
template <class T>
ColumnSums<T> no_sums(Index columns);
template <class T>
void add_sums(const T* phi, Index rows, Index columns, ColumnSums<T>& sums);
// scale: a power of two at least as large as every entry of the centred column; 1 for columns of zeros.
template <class T>
void finish_sums(const ColumnSums<T>& sums, Index columns, double rows, bool centre, double* means,
                 double* keep, float* scale);
// phi = (phi - mean) keep
template <class T>
void subtract_means(T* phi, Index rows, Index columns, const double* means, const double* keep);

// scale[i]: a power of two at least as large as every entry of row i; 1 for rows of zeros.
template <class T>
void row_scales(const T* phi, Index rows, Index columns, float* scale);
// out (rows, width) = phi[:, first .. first + width) / scale, scale of the columns or of the rows.
template <class T>
void to_half(const T* phi, Index rows, Index columns, Index first, Index width, const float* column_scale,
             const float* row_scale, __half* out);
template <class T>
void to_double(const T* phi, Index rows, Index columns, Index first, Index width, double* out);

// to[k] = row examples[k] - first of phi, for the examples of the block; columns of a matrix by columns.
template <class T, class To>
void gather_rows(const T* phi, Index columns, const std::int64_t* examples, Index count, Index first, To* to);

// a (rows, q): row i times w[i]; a - b, entry by entry.
void multiply_rows(double* a, Index rows, Index q, const double* w);
void subtract(double* a, Index items, const double* b);

}  // namespace headlens::cuda
