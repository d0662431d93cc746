#include "cuda/products/products.hpp"

#include <cmath>
#include <limits>

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256, kRows = 8;  // rows of a block of forward

unsigned blocks_of(Index items, Index size) { return static_cast<unsigned>((items + size - 1) / size); }

__device__ inline double sum_of_warp(double value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0U, value, step);
  return value;
}

// The sum over the threads of a block, on thread 0.
__device__ inline double sum_of_block(double value) {
  __shared__ double sums[kThreads / 32];
  value = sum_of_warp(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0)
    for (const double sum : sums) total += sum;
  return total;
}

// Rows share every value that is loaded; outputs lie along y.
template <class T>
__global__ void forward_kernel(const T* __restrict__ phi, Index rows, Index columns,
                               const double* __restrict__ v, Index q, double* __restrict__ out) {
  const Index first = static_cast<Index>(blockIdx.x) * kRows, c = blockIdx.y;
  double sums[kRows] = {};
  for (Index j = threadIdx.x; j < columns; j += kThreads) {
    const double value = v[j * q + c];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (first + r < rows) sums[r] += static_cast<double>(phi[(first + r) * columns + j]) * value;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const double sum = sum_of_block(sums[r]);
    if (threadIdx.x == 0 && first + r < rows) out[(first + r) * q + c] = sum;
  }
}

template <class T>
__global__ void adjoint_kernel(const T* __restrict__ phi, Index rows, Index columns,
                               const double* __restrict__ r, Index q, double* __restrict__ partial) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x, c = blockIdx.z;
  const Index first = static_cast<Index>(blockIdx.y) * kSumRows, last = min(rows, first + kSumRows);
  if (j >= columns) return;
  double sum = 0;
#pragma unroll 8
  for (Index i = first; i < last; ++i) sum += static_cast<double>(phi[i * columns + j]) * r[i * q + c];
  partial[(static_cast<Index>(blockIdx.y) * columns + j) * q + c] = sum;
}

__global__ void add_partial_kernel(const double* __restrict__ partial, Index tiles, Index items,
                                   double* __restrict__ out) {
  const Index e = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= items) return;
  double sum = out[e];
  for (Index t = 0; t < tiles; ++t) sum += partial[t * items + e];
  out[e] = sum;
}

template <class T>
__global__ void squares_kernel(const T* __restrict__ phi, Index columns, double* __restrict__ out) {
  const T* row = phi + static_cast<Index>(blockIdx.x) * columns;
  double sum = 0;
  for (Index j = threadIdx.x; j < columns; j += kThreads)
    sum += static_cast<double>(row[j]) * static_cast<double>(row[j]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <class T>
__global__ void sums_kernel(const T* __restrict__ phi, Index rows, Index columns,
                            double* __restrict__ partial, T* __restrict__ lows, T* __restrict__ highs) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  const Index first = static_cast<Index>(blockIdx.y) * kSumRows, last = min(rows, first + kSumRows);
  if (j >= columns) return;
  double sum = 0;
  T low = phi[first * columns + j], high = low;
#pragma unroll 8
  for (Index i = first; i < last; ++i) {
    const T x = phi[i * columns + j];
    sum += static_cast<double>(x);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  const Index at = static_cast<Index>(blockIdx.y) * columns + j;
  partial[at] = sum;
  lows[at] = low;
  highs[at] = high;
}

template <class T>
__global__ void add_range_kernel(const T* __restrict__ lows, const T* __restrict__ highs, Index tiles,
                                 Index columns, T* __restrict__ low, T* __restrict__ high) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (j >= columns) return;
  for (Index t = 0; t < tiles; ++t) {
    low[j] = min(low[j], lows[t * columns + j]);
    high[j] = max(high[j], highs[t * columns + j]);
  }
}

__device__ inline float power_of_two_above(double size) {
  return size > 0 && isfinite(size) ? static_cast<float>(exp2(ceil(log2(size)))) : 1.0F;
}

template <class T>
__global__ void finish_kernel(const double* __restrict__ sums, const T* __restrict__ low,
                              const T* __restrict__ high, Index columns, double rows, bool centre,
                              double epsilon, double* __restrict__ means, double* __restrict__ keep,
                              float* __restrict__ scale) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (j >= columns) return;
  const double least = low[j], most = high[j], largest = fmax(fabs(least), fabs(most));
  means[j] = centre ? sums[j] / rows : 0.0;
  keep[j] = !centre || most - least > 16 * epsilon * largest ? 1.0 : 0.0;
  scale[j] = power_of_two_above(keep[j] * fmax(fabs(least - means[j]), fabs(most - means[j])));
}

template <class T>
__global__ void subtract_kernel(T* __restrict__ phi, Index rows, Index columns,
                                const double* __restrict__ means, const double* __restrict__ keep) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (j >= columns) return;
  const double mean = means[j], kept = keep[j];
  const Index first = static_cast<Index>(blockIdx.y) * kSumRows, last = min(rows, first + kSumRows);
#pragma unroll 8
  for (Index i = first; i < last; ++i)
    phi[i * columns + j] = static_cast<T>((static_cast<double>(phi[i * columns + j]) - mean) * kept);
}

template <class T>
__global__ void row_scale_kernel(const T* __restrict__ phi, Index columns, float* __restrict__ scale) {
  __shared__ double tops[kThreads];
  const T* row = phi + static_cast<Index>(blockIdx.x) * columns;
  double top = 0;
  for (Index j = threadIdx.x; j < columns; j += kThreads) top = fmax(top, fabs(static_cast<double>(row[j])));
  tops[threadIdx.x] = top;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (const double other : tops) top = fmax(top, other);
  scale[blockIdx.x] = power_of_two_above(top);
}

// to(i, j) = make(i, first + j, phi of that), rows of a block along y.
template <class T, class To, class Make>
__global__ void map_kernel(const T* __restrict__ phi, Index rows, Index columns, Index first, Index width,
                           To* __restrict__ to, Make make) {
  const Index j = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (j >= width) return;
  const Index begin = static_cast<Index>(blockIdx.y) * kRows, end = min(rows, begin + kRows);
#pragma unroll
  for (Index i = begin; i < end; ++i) to[i * width + j] = make(i, first + j, phi[i * columns + first + j]);
}

template <class T, class To>
__global__ void gather_kernel(const T* __restrict__ phi, Index columns,
                              const std::int64_t* __restrict__ examples, Index first, To* __restrict__ to) {
  const Index k = blockIdx.x;
  const T* row = phi + (examples[k] - first) * columns;
  for (Index j = threadIdx.x; j < columns; j += kThreads) to[k * columns + j] = static_cast<To>(row[j]);
}

template <class Change>
__global__ void change_kernel(double* __restrict__ a, Index items, Change change) {
  const Index e = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (e < items) a[e] = change(e, a[e]);
}

Index tiles_of(Index rows) { return (rows + kSumRows - 1) / kSumRows; }

dim3 column_grid(Index rows, Index columns, Index q = 1) {
  return {blocks_of(columns, kThreads), static_cast<unsigned>(tiles_of(rows)), static_cast<unsigned>(q)};
}

void add_partial(const double* partial, Index tiles, Index items, double* out) {
  add_partial_kernel<<<blocks_of(items, kThreads), kThreads, 0, device().stream>>>(partial, tiles, items,
                                                                                   out);
  check(cudaGetLastError());
}

template <class T>
__global__ void columns_kernel(const T* __restrict__ block, Index stride,
                               const std::int64_t* __restrict__ order, Index columns, T* __restrict__ out) {
  const Index row = blockIdx.x;
  for (Index j = threadIdx.x; j < columns; j += kThreads)
    out[row * columns + j] = block[row * stride + order[j]];
}

}  // namespace

template <class T>
void add_forward(const T* phi, Index rows, Index columns, const double* v, Index q, double* out) {
  const dim3 grid(blocks_of(rows, kRows), static_cast<unsigned>(q));
  forward_kernel<T><<<grid, kThreads, 0, device().stream>>>(phi, rows, columns, v, q, out);
  check(cudaGetLastError());
}

Index adjoint_items(Index rows, Index columns, Index q) { return tiles_of(rows) * columns * q; }

template <class T>
void add_adjoint(const T* phi, Index rows, Index columns, const double* r, Index q, double* partial,
                 double* out) {
  adjoint_kernel<T>
      <<<column_grid(rows, columns, q), kThreads, 0, device().stream>>>(phi, rows, columns, r, q, partial);
  check(cudaGetLastError());
  add_partial(partial, tiles_of(rows), columns * q, out);
}

template <class T>
void take_columns(const T* block, Index rows, Index stride, const std::int64_t* order, Index columns,
                  T* out) {
  columns_kernel<T>
      <<<static_cast<unsigned>(rows), kThreads, 0, device().stream>>>(block, stride, order, columns, out);
  check(cudaGetLastError());
}

template <class T>
void row_squares(const T* phi, Index rows, Index columns, double* out) {
  squares_kernel<T><<<static_cast<unsigned>(rows), kThreads, 0, device().stream>>>(phi, columns, out);
  check(cudaGetLastError());
}

template <class T>
ColumnSums<T> no_sums(Index columns) {
  const T infinity = std::numeric_limits<T>::infinity();
  const auto size = static_cast<std::size_t>(columns);
  return {DeviceArray<double>::from(std::vector<double>(size, 0.0)),
          DeviceArray<T>::from(std::vector<T>(size, infinity)),
          DeviceArray<T>::from(std::vector<T>(size, -infinity))};
}

template <class T>
void add_sums(const T* phi, Index rows, Index columns, ColumnSums<T>& sums) {
  const Index tiles = tiles_of(rows), items = tiles * columns;
  DeviceArray<double> partial(items);
  DeviceArray<T> lows(items), highs(items);
  sums_kernel<T><<<column_grid(rows, columns), kThreads, 0, device().stream>>>(
      phi, rows, columns, partial.data(), lows.data(), highs.data());
  check(cudaGetLastError());
  add_partial(partial.data(), tiles, columns, sums.sums.data());
  add_range_kernel<T><<<blocks_of(columns, kThreads), kThreads, 0, device().stream>>>(
      lows.data(), highs.data(), tiles, columns, sums.lows.data(), sums.highs.data());
  check(cudaGetLastError());
}

template <class T>
void finish_sums(const ColumnSums<T>& sums, Index columns, double rows, bool centre, double* means,
                 double* keep, float* scale) {
  finish_kernel<T><<<blocks_of(columns, kThreads), kThreads, 0, device().stream>>>(
      sums.sums.data(), sums.lows.data(), sums.highs.data(), columns, rows, centre,
      std::numeric_limits<T>::epsilon(), means, keep, scale);
  check(cudaGetLastError());
}

template <class T>
void subtract_means(T* phi, Index rows, Index columns, const double* means, const double* keep) {
  subtract_kernel<T>
      <<<column_grid(rows, columns), kThreads, 0, device().stream>>>(phi, rows, columns, means, keep);
  check(cudaGetLastError());
}

template <class T>
void row_scales(const T* phi, Index rows, Index columns, float* scale) {
  row_scale_kernel<T><<<static_cast<unsigned>(rows), kThreads, 0, device().stream>>>(phi, columns, scale);
  check(cudaGetLastError());
}

template <class T>
void to_half(const T* phi, Index rows, Index columns, Index first, Index width, const float* column_scale,
             const float* row_scale, __half* out) {
  const dim3 grid(blocks_of(width, kThreads), blocks_of(rows, kRows));
  map_kernel<<<grid, kThreads, 0, device().stream>>>(
      phi, rows, columns, first, width, out, [=] __device__(Index i, Index j, T x) {
        return __float2half_rn(static_cast<float>(x) / (column_scale ? column_scale[j] : row_scale[i]));
      });
  check(cudaGetLastError());
}

template <class T>
void to_double(const T* phi, Index rows, Index columns, Index first, Index width, double* out) {
  const dim3 grid(blocks_of(width, kThreads), blocks_of(rows, kRows));
  map_kernel<<<grid, kThreads, 0, device().stream>>>(
      phi, rows, columns, first, width, out,
      [=] __device__(Index, Index, T x) { return static_cast<double>(x); });
  check(cudaGetLastError());
}

template <class T, class To>
void gather_rows(const T* phi, Index columns, const std::int64_t* examples, Index count, Index first,
                 To* to) {
  if (count == 0) return;
  gather_kernel<T, To>
      <<<static_cast<unsigned>(count), kThreads, 0, device().stream>>>(phi, columns, examples, first, to);
  check(cudaGetLastError());
}

void multiply_rows(double* a, Index rows, Index q, const double* w) {
  change_kernel<<<blocks_of(rows * q, kThreads), kThreads, 0, device().stream>>>(
      a, rows * q, [=] __device__(Index e, double x) { return x * w[e / q]; });
  check(cudaGetLastError());
}

void subtract(double* a, Index items, const double* b) {
  change_kernel<<<blocks_of(items, kThreads), kThreads, 0, device().stream>>>(
      a, items, [=] __device__(Index e, double x) { return x - b[e]; });
  check(cudaGetLastError());
}

#define HEADLENS_FOR(T)                                                                             \
  template void add_forward(const T*, Index, Index, const double*, Index, double*);                 \
  template void add_adjoint(const T*, Index, Index, const double*, Index, double*, double*);        \
  template void take_columns(const T*, Index, Index, const std::int64_t*, Index, T*);               \
  template void row_squares(const T*, Index, Index, double*);                                       \
  template ColumnSums<T> no_sums<T>(Index);                                                         \
  template void add_sums(const T*, Index, Index, ColumnSums<T>&);                                   \
  template void finish_sums(const ColumnSums<T>&, Index, double, bool, double*, double*, float*);   \
  template void subtract_means(T*, Index, Index, const double*, const double*);                     \
  template void row_scales(const T*, Index, Index, float*);                                         \
  template void to_half(const T*, Index, Index, Index, Index, const float*, const float*, __half*); \
  template void to_double(const T*, Index, Index, Index, Index, double*);                           \
  template void gather_rows(const T*, Index, const std::int64_t*, Index, Index, float*);            \
  template void gather_rows(const T*, Index, const std::int64_t*, Index, Index, double*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
