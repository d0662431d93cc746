#include "cuda/layer/variant_kernels.hpp"

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_over(Index items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

__device__ Index own_item() { return static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; }

// Item i < cols: the last row; the others: the last column.
template <class T>
__global__ void pin_kernel(Index rows, Index cols, Index free, T* __restrict__ direction) {
  const Index at = own_item();
  if (at < cols) {
    if (at >= free) direction[(rows - 1) * cols + at] = T(0);
  } else if (at < cols + rows) {
    direction[(at - cols) * cols + cols - 1] = T(0);
  }
}

template <class T>
__global__ void turn_kernel(TurnedPairs shape, const T* __restrict__ cosine, const T* __restrict__ sine,
                            T sign, Index rows, Index cols, T* __restrict__ z) {
  const Index at = own_item(), j = at % shape.pairs, part = at / shape.pairs % shape.parts,
              row = at / (shape.pairs * shape.parts);
  if (row >= rows) return;
  T *first = z + row * cols + part * shape.rank + j * shape.step, *second = first + shape.apart;
  const Index angle = row % shape.tokens * shape.pairs + j;
  const T a = *first, b = *second, c = cosine[angle], s = sign * sine[angle];
  *first = a * c - b * s;
  *second = a * s + b * c;
}

template <class T>
__global__ void hide_kernel(const float* __restrict__ seen, Index size, T* __restrict__ a) {
  const Index at = own_item();
  if (at < size && seen[at] == 0.0f) a[at] = T(0);
}

// A block works on rows of one column. Symmetric cores are read along their rows, so that threads read
// neighbours.
template <class T>
__global__ void columns_kernel(const T* __restrict__ cores, const Index* __restrict__ group_of,
                               const T* __restrict__ c, Index features, Index outputs, T* __restrict__ out) {
  const Index i = own_item(), j = blockIdx.y;
  if (i >= features) return;
  const T* core = cores + group_of[j] * features * features;
  T sum = 0;
  for (Index l = 0; l < features; ++l) sum += core[l * features + i] * c[l * outputs + j];
  out[i * outputs + j] = sum;
}

}  // namespace

template <class T>
void pin_directions(Index rows, Index cols, Index free, T* direction) {
  pin_kernel<T><<<blocks_over(rows + cols), kThreads, 0, device().stream>>>(rows, cols, free, direction);
  check(cudaGetLastError());
}

template <class T>
void turn_pairs(const TurnedPairs& shape, const T* cosine, const T* sine, T sign, Index rows, Index cols,
                T* z) {
  const Index items = rows * shape.parts * shape.pairs;
  if (items == 0) return;
  turn_kernel<T>
      <<<blocks_over(items), kThreads, 0, device().stream>>>(shape, cosine, sine, sign, rows, cols, z);
  check(cudaGetLastError());
}

template <class T>
void hide_unseen(const float* seen, Index size, T* a) {
  if (size == 0) return;
  hide_kernel<T><<<blocks_over(size), kThreads, 0, device().stream>>>(seen, size, a);
  check(cudaGetLastError());
}

template <class T>
void multiply_columns(const T* cores, const Index* group_of, const T* c, Index features, Index outputs,
                      T* out) {
  if (features * outputs == 0) return;
  const dim3 grid(blocks_over(features), static_cast<unsigned>(outputs));
  columns_kernel<T><<<grid, kThreads, 0, device().stream>>>(cores, group_of, c, features, outputs, out);
  check(cudaGetLastError());
}

#define HEADLENS_FOR(T)                                                                  \
  template void turn_pairs(const TurnedPairs&, const T*, const T*, T, Index, Index, T*); \
  template void pin_directions(Index, Index, Index, T*);                                 \
  template void hide_unseen(const float*, Index, T*);                                    \
  template void multiply_columns(const T*, const Index*, const T*, Index, Index, T*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
