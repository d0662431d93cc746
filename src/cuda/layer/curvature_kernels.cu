#include "cuda/layer/curvature_kernels.hpp"

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_of(Index items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

// Where entry (i, j) of block b lies in the parameters; -1: in no column.
__device__ Index place(const BlockShape& shape, Index block, Index i, Index j) {
  const backend::HeadColumns c = shape.columns[block % shape.heads];
  const Index kind = block / shape.heads, columns = kind == 2 ? c.values : c.logits;
  if (j >= columns || (kind > 0 && block % shape.heads % shape.shared != 0)) return -1;
  return i * shape.parameter_columns + (kind == 0 ? c.q : kind == 1 ? c.k : c.v) + j;
}

template <class T, bool kOut>
__global__ void move_kernel(BlockShape shape, T* __restrict__ a, T* __restrict__ blocks) {
  const Index at = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x, size = shape.dim * shape.rank;
  if (at >= size) return;
  const Index from = place(shape, blockIdx.y, at / shape.rank, at % shape.rank);
  T& entry = blocks[blockIdx.y * size + at];
  if constexpr (kOut) {
    if (from >= 0) a[from] = entry;
  } else {
    entry = from >= 0 ? a[from] : T(0);
  }
}

template <class T>
__global__ void divide_kernel(BlockShape shape, const float* __restrict__ left,
                              const float* __restrict__ right, T floor, T mu, T* __restrict__ blocks) {
  const Index at = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x, size = shape.dim * shape.rank;
  if (at >= size) return;
  const Index block = blockIdx.y, turned = block - shape.heads;  // Q has no left side
  const float* r = right + block * shape.rank;
  const float* l = left + (turned < 0 ? 0 : turned) * shape.dim;
  const T own_left = turned < 0 ? T(1) : max(T(l[at / shape.rank]), T(0)),
          top_left = turned < 0 ? T(1) : max(T(l[shape.dim - 1]), T(0));
  const T own = own_left * max(T(r[at % shape.rank]), T(0)), top = top_left * max(T(r[shape.rank - 1]), T(0));
  const T size_here = mu + max(floor * top, own);
  blocks[block * size + at] = size_here > T(0) ? blocks[block * size + at] / size_here : T(0);
}

template <class T>
void move(const BlockShape& shape, bool out, T* a, T* blocks) {
  const dim3 grid(blocks_of(shape.dim * shape.rank), static_cast<unsigned>(3 * shape.heads));
  if (out)
    move_kernel<T, true><<<grid, kThreads, 0, device().stream>>>(shape, a, blocks);
  else
    move_kernel<T, false><<<grid, kThreads, 0, device().stream>>>(shape, a, blocks);
  check(cudaGetLastError());
}

extern __shared__ float bend_memory[];

// (diag p - p p^T) G (diag p - p p^T) = p p^T * (G - g 1^T - 1 g^T + <p, g>), g = G p, summed over queries.
__global__ void bend_kernel(Sampled sampled, const float* __restrict__ z, const float* __restrict__ p,
                            const float* __restrict__ g, float* __restrict__ plain,
                            float* __restrict__ weighed) {
  const int k = static_cast<int>(sampled.tokens), stride = k + 1;
  float *weight = bend_memory, *gram = weight + k * stride, *turned = gram + k * stride,
        *mean = turned + k * stride, *size = mean + k;
  const Index row = static_cast<Index>(blockIdx.x) * k, square = static_cast<Index>(blockIdx.x) * k * k;
  for (int at = threadIdx.x; at < k * k; at += kThreads) {
    weight[at / k * stride + at % k] = p[((row + at / k) * sampled.heads + sampled.head) * k + at % k];
    gram[at / k * stride + at % k] = g[square + at];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < k * k; at += kThreads) {
    float sum = 0;
    for (int c = 0; c < k; ++c) sum += gram[at % k * stride + c] * weight[at / k * stride + c];
    turned[at / k * stride + at % k] = sum;
  }
  __syncthreads();
  for (int a = threadIdx.x; a < k; a += kThreads) {
    float along = 0, squares = 0;
    for (int b = 0; b < k; ++b) along += weight[a * stride + b] * turned[a * stride + b];
    const float* q = z + (row + a) * sampled.parameter_columns + sampled.columns.q;
    for (Index j = 0; j < sampled.columns.logits; ++j) squares += q[j] * q[j];
    mean[a] = along;
    size[a] = squares;
  }
  __syncthreads();
  for (int at = threadIdx.x; at < k * k; at += kThreads) {
    const int b = at / k, c = at % k;
    float sum = 0, heavy = 0;
    for (int a = 0; a < k; ++a) {
      const float bend = weight[a * stride + b] * weight[a * stride + c] *
                         (gram[b * stride + c] - turned[a * stride + b] - turned[a * stride + c] + mean[a]);
      sum += bend;
      heavy += size[a] * bend;
    }
    plain[square + at] = sum;
    weighed[square + at] = heavy;
  }
}

__global__ void gauge_kernel(Index rank, const double* __restrict__ sizes, const double* __restrict__ t,
                             double* __restrict__ along, double* __restrict__ minus) {
  const Index at = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x, head = blockIdx.y;
  if (at >= rank * rank) return;
  const double size = sizes[head * rank + at / rank] + sizes[head * rank + at % rank];
  const Index place = head * rank * rank + at;
  const double angle = (along[place] - t[place]) / max(size, 1e-300);
  along[place] = angle;
  minus[place] = -angle;
}

}  // namespace

template <class T>
void to_blocks(const BlockShape& shape, const T* a, T* blocks) {
  move(shape, false, const_cast<T*>(a), blocks);
}

template <class T>
void from_blocks(const BlockShape& shape, const T* blocks, T* a) {
  move(shape, true, a, const_cast<T*>(blocks));
}

template <class T>
void divide_blocks(const BlockShape& shape, const float* left, const float* right, double floor, double mu,
                   T* blocks) {
  const dim3 grid(blocks_of(shape.dim * shape.rank), static_cast<unsigned>(3 * shape.heads));
  divide_kernel<T><<<grid, kThreads, 0, device().stream>>>(shape, left, right, static_cast<T>(floor),
                                                           static_cast<T>(mu), blocks);
  check(cudaGetLastError());
}

void sum_bends(const Sampled& sampled, const float* z, const float* p, const float* g, float* plain,
               float* weighed) {
  const std::size_t bytes = bend_bytes(sampled.tokens);
  check(cudaFuncSetAttribute(bend_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  bend_kernel<<<static_cast<unsigned>(sampled.examples), kThreads, bytes, device().stream>>>(sampled, z, p, g,
                                                                                             plain, weighed);
  check(cudaGetLastError());
}

void divide_gauge(Index heads, Index rank, const double* sizes, const double* t, double* along,
                  double* minus) {
  const dim3 grid(blocks_of(rank * rank), static_cast<unsigned>(heads));
  gauge_kernel<<<grid, kThreads, 0, device().stream>>>(rank, sizes, t, along, minus);
  check(cudaGetLastError());
}

#define HEADLENS_FOR(T)                                       \
  template void to_blocks(const BlockShape&, const T*, T*);   \
  template void from_blocks(const BlockShape&, const T*, T*); \
  template void divide_blocks(const BlockShape&, const float*, const float*, double, double, T*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
