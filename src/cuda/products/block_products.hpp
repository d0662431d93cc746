// Products of blocks of Phi with few or many columns, and sums of Gram matrices, by cuBLAS where it is made
// for them.
#pragma once

#include "cuda/products/products.hpp"

namespace headlens::cuda {

// out (rows, q) = phi v
template <class T>
void multiply_block(const T* phi, Index rows, Index columns, const double* v, Index q, double* out);
// out (columns, q) += phi^T r
template <class T>
void multiply_transposed(const T* phi, Index rows, Index columns, const double* r, Index q, double* out);

// Lower triangles, by columns. In double:
//   g (columns, columns) += phi^T phi          k (rows, rows) += phi phi^T
template <class T>
void add_inner(const T* phi, Index rows, Index columns, double* g);
template <class T>
void add_outer(const T* phi, Index rows, Index columns, double* k);
// Of features rounded to half precision (11 bits), divided by powers of two, summed in float:
template <class T>
void add_rounded_inner(const T* phi, Index rows, Index columns, const float* column_scale, float* g);
template <class T>
void add_rounded_outer(const T* phi, Index rows, Index columns, const float* row_scale, float* k);

double block_product_bytes(double rows, double columns);  // the largest buffer of all these

}  // namespace headlens::cuda
