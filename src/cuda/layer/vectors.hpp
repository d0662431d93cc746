// Arrays of the device as vectors. Inner products are summed in double, in an order that depends on the
// length alone.
#pragma once

#include <vector>

#include "cuda/device.hpp"

namespace headlens::cuda {

template <class From, class To>
void convert(const From* from, Index size, To* to);

// to += factor from
template <class T>
void add_scaled(double factor, const T* from, Index size, T* to);
// to += sum_i factors_i from_i
void add_scaled(const std::vector<double>& factors, const std::vector<const double*>& from, Index size,
                double* to);
// a = z + factor a
template <class T>
void scale_and_add(double factor, const T* z, Index size, T* a);
// a = factor a
template <class T>
void scale(double factor, Index size, T* a);

template <class T>
double inner_product(const T* a, const T* b, Index size);
// <a_i, b> of several
std::vector<double> inner_products(const std::vector<const double*>& a, const double* b, Index size);

// squares[i] = |row i of a|^2, row by row, for `rows` rows of `cols`.
std::vector<double> row_squares_of(const float* a, Index rows, Index cols);

// to (count tokens, cols): the rows of examples of `tokens` rows each.
template <class T>
void gather_examples(const T* from, Index cols, Index tokens, const std::int64_t* examples, Index count,
                     T* to);

// One step of Adam on `size` parameters: along = rate / (1 - kMean^t), unit = 1 / (1 - kSquare^t), and
// averaged += averaged_share (value - averaged).
struct AdamRate {
  float mean_share, square_share, along, unit, small, averaged_share;
};
struct AdamState {
  float *value, *mean, *square, *averaged;
};
void adam_step(const AdamRate& rate, const float* gradient, Index size, const AdamState& state);

}  // namespace headlens::cuda
