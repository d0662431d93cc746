// Products of float matrices that BLAS does not offer or does slowly, one instance per instruction set.
#pragma once

#include "base/cpu.hpp"
#include "headlens/array.hpp"

namespace headlens {

inline constexpr int kSingleLanes = 32;  // columns, and rows, of a block of a Gram matrix

struct SingleKernels {
  // The block out[r][c] += sum_k rows[k][r] columns[k][c], r and c below kSingleLanes. Both factors are
  // packed, kSingleLanes items a step.
  void (*add_block)(Index steps, const float* columns, const float* rows, float* out, Index out_stride);
  // sum_j a_j b_j and out_j += sum_i a_ij scale_i, in double: a is rounded already, products are not.
  double (*dot)(Index count, const float* a, const double* b);
  void (*add_rows)(Index rows, Index cols, const float* a, Index stride, const double* scale, Index step,
                   double* out);
};
SingleKernels single_kernels(SimdLevel level);

}  // namespace headlens
