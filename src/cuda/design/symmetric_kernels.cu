#include "cuda/design/symmetric_kernels.hpp"

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256, kTile = 32, kTileRows = 8;

unsigned blocks_of(Index items, Index size) { return static_cast<unsigned>((items + size - 1) / size); }

template <class T>
__global__ void diagonal_kernel(const T* __restrict__ a, Index size, T* __restrict__ diagonal) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < size) diagonal[i] = a[i * size + i];
}

// Tiles of the lower triangle, transposed through shared memory.
template <class T>
__global__ void mirror_kernel(T* __restrict__ a, Index size, const T* __restrict__ diagonal, T shift) {
  __shared__ T tile[kTile][kTile + 1];
  if (blockIdx.x < blockIdx.y) return;  // x: rows, y: columns
  const Index row = static_cast<Index>(blockIdx.x) * kTile, column = static_cast<Index>(blockIdx.y) * kTile;
  for (int c = threadIdx.y; c < kTile; c += kTileRows) {
    const Index i = row + threadIdx.x, j = column + c;
    if (i < size && j < size) tile[c][threadIdx.x] = a[j * size + i];
  }
  __syncthreads();
  for (int c = threadIdx.y; c < kTile; c += kTileRows) {
    const Index i = column + threadIdx.x, j = row + c;  // of the upper triangle
    if (i >= size || j >= size || i > j) continue;
    a[j * size + i] = i == j ? diagonal[i] + shift : tile[threadIdx.x][c];
  }
}

// a_ij = make(i, j, a_ij) for i >= j.
template <class T, class Make>
__global__ void lower_kernel(T* __restrict__ a, Index size, Make make) {
  const Index j = blockIdx.y;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += static_cast<Index>(gridDim.x) * kThreads)
    if (i >= j) a[j * size + i] = make(i, j, a[j * size + i]);
}

template <class T, class Make>
void change_lower(T* a, Index size, Make make) {
  constexpr Index kMostColumns = 65535;  // of a grid
  for (Index first = 0; first < size; first += kMostColumns) {
    const Index columns = min(kMostColumns, size - first);
    const dim3 grid(blocks_of(size, 4 * kThreads), static_cast<unsigned>(columns));
    lower_kernel<<<grid, kThreads, 0, device().stream>>>(
        a + first * size, size,
        [=] __device__(Index i, Index j, T x) { return i >= j + first ? make(i, j + first, x) : x; });
    check(cudaGetLastError());
  }
}

template <class T>
__global__ void squares_kernel(const T* __restrict__ b, Index size, double* __restrict__ out) {
  __shared__ double sums[kThreads];
  const T* column = b + static_cast<Index>(blockIdx.x) * size;
  double sum = 0;
  for (Index i = threadIdx.x; i < size; i += kThreads)
    sum += static_cast<double>(column[i]) * static_cast<double>(column[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

template <class T>
__global__ void unit_kernel(const std::int64_t* __restrict__ examples, Index size, Index count,
                            T* __restrict__ b) {
  const Index k = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (k < count) b[k * size + examples[k]] = T(1);
}

__global__ void diagonal_product_kernel(const double* __restrict__ a, Index size,
                                        const double* __restrict__ diagonal, double shift,
                                        const double* __restrict__ x, double* __restrict__ y) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  const Index at = static_cast<Index>(blockIdx.y) * size + i;
  if (i < size) y[at] += (diagonal[i] + shift - a[i * size + i]) * x[at];
}

}  // namespace

template <class T>
void copy_diagonal(const T* a, Index size, T* diagonal) {
  diagonal_kernel<T><<<blocks_of(size, kThreads), kThreads, 0, device().stream>>>(a, size, diagonal);
  check(cudaGetLastError());
}

template <class T>
void mirror_to_upper(T* a, Index size, const T* diagonal, T shift) {
  const dim3 grid(blocks_of(size, kTile), blocks_of(size, kTile));
  mirror_kernel<T><<<grid, dim3(kTile, kTileRows), 0, device().stream>>>(a, size, diagonal, shift);
  check(cudaGetLastError());
}

void multiply_scales(float* a, Index size, const float* scale) {
  change_lower(a, size, [=] __device__(Index i, Index j, float x) { return x * scale[i] * scale[j]; });
}

template <class T>
void add_constant(T* a, Index size, T constant) {
  change_lower(a, size, [=] __device__(Index, Index, T x) { return x + constant; });
}

void subtract_means_twice(double* a, Index size, const double* means, double mean) {
  change_lower(a, size,
               [=] __device__(Index i, Index j, double x) { return x - (means[i] + means[j] - mean); });
}

template <class T>
void column_squares(const T* b, Index size, Index count, double* out) {
  squares_kernel<T><<<static_cast<unsigned>(count), kThreads, 0, device().stream>>>(b, size, out);
  check(cudaGetLastError());
}

template <class T>
void unit_vectors(const std::int64_t* examples, Index size, Index count, T* b) {
  check(cudaMemsetAsync(b, 0, static_cast<std::size_t>(size * count) * sizeof(T), device().stream));
  unit_kernel<T><<<blocks_of(count, kThreads), kThreads, 0, device().stream>>>(examples, size, count, b);
  check(cudaGetLastError());
}

void add_diagonal_product(const double* a, Index size, const double* diagonal, double shift, const double* x,
                          Index q, double* y) {
  const dim3 grid(blocks_of(size, kThreads), static_cast<unsigned>(q));
  diagonal_product_kernel<<<grid, kThreads, 0, device().stream>>>(a, size, diagonal, shift, x, y);
  check(cudaGetLastError());
}

#define HEADLENS_FOR(T)                                          \
  template void copy_diagonal(const T*, Index, T*);              \
  template void mirror_to_upper(T*, Index, const T*, T);         \
  template void add_constant(T*, Index, T);                      \
  template void column_squares(const T*, Index, Index, double*); \
  template void unit_vectors(const std::int64_t*, Index, Index, T*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
