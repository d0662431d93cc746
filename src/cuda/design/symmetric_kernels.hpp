// What is done with a symmetric matrix on the device: (size, size) by columns, the lower triangle valid.
#pragma once

#include "cuda/device.hpp"

namespace headlens::cuda {

template <class T>
void copy_diagonal(const T* a, Index size, T* diagonal);
// The upper triangle becomes the transpose of the lower one; the diagonal, `diagonal` + shift.
template <class T>
void mirror_to_upper(T* a, Index size, const T* diagonal, T shift);
// The lower triangle: a_ij scale_i scale_j; a_ij + constant; a_ij - mean_i - mean_j + mean.
void multiply_scales(float* a, Index size, const float* scale);
template <class T>
void add_constant(T* a, Index size, T constant);
void subtract_means_twice(double* a, Index size, const double* means, double mean);

// out[k] = |column k of b (size, count)|^2
template <class T>
void column_squares(const T* b, Index size, Index count, double* out);
// b (size, count) = the unit vectors of the examples.
template <class T>
void unit_vectors(const std::int64_t* examples, Index size, Index count, T* b);
// y_i += (diagonal_i + shift - a_ii) x_i: what a product misses whose diagonal is that of a factor.
void add_diagonal_product(const double* a, Index size, const double* diagonal, double shift, const double* x,
                          Index q, double* y);

}  // namespace headlens::cuda
