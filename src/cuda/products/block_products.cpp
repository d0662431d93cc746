#include "cuda/products/block_products.hpp"

#include <algorithm>
#include <type_traits>

namespace headlens::cuda {
namespace {

constexpr Index kFewColumns = 4;       // fewer: kernels of our own, one pass over phi per column
constexpr Index kPanel = 1024;         // columns of a Gram matrix that one product computes
constexpr Index kSlab = 8192;          // rows or columns of phi that are converted at a time
constexpr Index kSlabItems = 1 << 27;  // at most

// Rows of so many columns, or the other way round, in whole partial sums.
Index slab(Index across) {
  return std::clamp<Index>(kSlabItems / std::max<Index>(1, across) / kSumRows * kSumRows, kSumRows, kSlab);
}

// visit(first row, rows, doubles): phi itself, or converted slabs of it.
template <class T, class Visit>
void for_double_rows(const T* phi, Index rows, Index columns, const Visit& visit) {
  const Index step = slab(columns);
  DeviceArray<double> buffer(std::is_same_v<T, double> ? 0 : std::min(step, rows) * columns);
  for (Index first = 0; first < rows; first += step) {
    const Index count = std::min(step, rows - first);
    if constexpr (std::is_same_v<T, double>) {
      visit(first, count, phi + first * columns);
    } else {
      to_double(phi + first * columns, count, columns, 0, columns, buffer.data());
      visit(first, count, buffer.data());
    }
  }
}

void add_syrk(cublasOperation_t form, Index size, Index inner, const double* a, Index stride, double* out) {
  const double one = 1;
  check(cublasDsyrk_64(device().blas, CUBLAS_FILL_MODE_LOWER, form, size, inner, &one, a, stride, &one, out,
                       size));
}

// The lower triangle of out (size, size) += a a^T (or a^T a), panel by panel: half the work of the whole.
void add_half_products(bool outer, Index size, Index inner, const __half* a, Index stride, float* out) {
  const float one = 1;
  for (Index j = 0; j < size; j += kPanel) {
    const Index width = std::min(kPanel, size - j);
    const __half* from = a + (outer ? j * stride : j);
    check(cublasGemmEx_64(device().blas, outer ? CUBLAS_OP_T : CUBLAS_OP_N, outer ? CUBLAS_OP_N : CUBLAS_OP_T,
                          size - j, width, inner, &one, from, CUDA_R_16F, stride, from, CUDA_R_16F, stride,
                          &one, out + j * size + j, CUDA_R_32F, size, CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT));
  }
}

}  // namespace

template <class T>
void multiply_block(const T* phi, Index rows, Index columns, const double* v, Index q, double* out) {
  if (q < kFewColumns) return add_forward(phi, rows, columns, v, q, out);
  const double one = 1, zero = 0;
  for_double_rows(phi, rows, columns, [&](Index first, Index count, const double* a) {
    check(cublasDgemm_64(device().blas, CUBLAS_OP_N, CUBLAS_OP_N, q, count, columns, &one, v, q, a, columns,
                         &zero, out + first * q, q));
  });
}

template <class T>
void multiply_transposed(const T* phi, Index rows, Index columns, const double* r, Index q, double* out) {
  if (q < kFewColumns) {
    DeviceArray<double> partial(adjoint_items(rows, columns, q));
    return add_adjoint(phi, rows, columns, r, q, partial.data(), out);
  }
  const double one = 1;
  for_double_rows(phi, rows, columns, [&](Index first, Index count, const double* a) {
    check(cublasDgemm_64(device().blas, CUBLAS_OP_N, CUBLAS_OP_T, q, columns, count, &one, r + first * q, q,
                         a, columns, &one, out, q));
  });
}

template <class T>
void add_inner(const T* phi, Index rows, Index columns, double* g) {
  for_double_rows(phi, rows, columns, [&](Index, Index count, const double* a) {
    add_syrk(CUBLAS_OP_N, columns, count, a, columns, g);
  });
}

template <class T>
void add_outer(const T* phi, Index rows, Index columns, double* k) {
  const Index step = slab(rows);
  DeviceArray<double> buffer(rows * std::min(step, columns));
  for (Index first = 0; first < columns; first += step) {
    const Index width = std::min(step, columns - first);
    to_double(phi, rows, columns, first, width, buffer.data());
    add_syrk(CUBLAS_OP_T, rows, width, buffer.data(), width, k);
  }
}

template <class T>
void add_rounded_inner(const T* phi, Index rows, Index columns, const float* column_scale, float* g) {
  const Index step = slab(columns);
  DeviceArray<__half> buffer(std::min(step, rows) * columns);
  for (Index first = 0; first < rows; first += step) {
    const Index count = std::min(step, rows - first);
    to_half(phi + first * columns, count, columns, 0, columns, column_scale, nullptr, buffer.data());
    add_half_products(false, columns, count, buffer.data(), columns, g);
  }
}

template <class T>
void add_rounded_outer(const T* phi, Index rows, Index columns, const float* row_scale, float* k) {
  const Index step = slab(rows);
  DeviceArray<__half> buffer(rows * std::min(step, columns));
  for (Index first = 0; first < columns; first += step) {
    const Index width = std::min(step, columns - first);
    to_half(phi, rows, columns, first, width, nullptr, row_scale, buffer.data());
    add_half_products(true, rows, width, buffer.data(), width, k);
  }
}

double block_product_bytes(double rows, double columns) {
  const auto of = [](double along, double across) {
    const auto most = static_cast<double>(slab(static_cast<Index>(std::min(across, 0x1p40))));
    return std::min(along, most) * across * sizeof(double);
  };
  return std::max(of(rows, columns), of(columns, rows));
}

#define HEADLENS_FOR(T)                                                                     \
  template void multiply_block(const T*, Index, Index, const double*, Index, double*);      \
  template void multiply_transposed(const T*, Index, Index, const double*, Index, double*); \
  template void add_inner(const T*, Index, Index, double*);                                 \
  template void add_outer(const T*, Index, Index, double*);                                 \
  template void add_rounded_inner(const T*, Index, Index, const float*, float*);            \
  template void add_rounded_outer(const T*, Index, Index, const float*, float*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
