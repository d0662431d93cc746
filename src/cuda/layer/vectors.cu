#include "cuda/layer/vectors.hpp"

#include <algorithm>

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256;
constexpr Index kMostBlocks = 1024;
constexpr int kSeveral = 16;  // vectors of one launch

unsigned blocks_for(Index size) {
  return static_cast<unsigned>(max(Index{1}, min(kMostBlocks, (size + 4 * kThreads - 1) / (4 * kThreads))));
}

// work(i) for i < size
template <class Work>
__global__ void each_kernel(Index size, Work work) {
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += static_cast<Index>(gridDim.x) * kThreads)
    work(i);
}

template <class Work>
void each(Index size, Work work) {
  if (size == 0) return;
  each_kernel<<<blocks_for(size), kThreads, 0, device().stream>>>(size, work);
  check(cudaGetLastError());
}

// The sum over the block, in the first thread.
__device__ double block_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  return sums[0];
}

// Vectors of one length, as many as one launch takes.
template <class T>
struct Several {
  const T* at[kSeveral];
  double factors[kSeveral];
  int count;
};

// partial[v, block] of <a_v, b>, v = blockIdx.y
template <class T>
__global__ void products_kernel(Several<T> several, const T* __restrict__ b, Index size,
                                double* __restrict__ all_partial) {
  const T* __restrict__ a = several.at[blockIdx.y];
  double* __restrict__ partial = all_partial + static_cast<Index>(blockIdx.y) * gridDim.x;
  double sum = 0;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += static_cast<Index>(gridDim.x) * kThreads)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void total_kernel(const double* __restrict__ partial, int count, double* __restrict__ totals) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += partial[blockIdx.x * count + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}

__global__ void add_several_kernel(Several<double> several, Index size, double* __restrict__ to) {
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += static_cast<Index>(gridDim.x) * kThreads) {
    double sum = to[i];
    for (int v = 0; v < several.count; ++v) sum += several.factors[v] * several.at[v][i];
    to[i] = sum;
  }
}

// Room for the sums of one thread: conjugate gradients ask for thousands of them.
struct Sums {
  double* partial = nullptr;  // (kSeveral, kMostBlocks), on the device
  double* totals = nullptr;   // (kSeveral), on the host, where the device writes them
};
const Sums& own_sums() {
  thread_local const Sums* const mine = [] {  // kept, as the handles of device()
    auto* out = new Sums;
    check(cudaMalloc(&out->partial, static_cast<std::size_t>(kSeveral * kMostBlocks) * sizeof(double)));
    check(cudaMallocHost(&out->totals, kSeveral * sizeof(double)));
    return out;
  }();
  return *mine;
}

// <a_v, b> in own_sums().totals
template <class T>
const double* sums_of_products(const Several<T>& several, const T* b, Index size) {
  const dim3 blocks(blocks_for(size), static_cast<unsigned>(several.count));
  const Sums& sums = own_sums();
  products_kernel<T><<<blocks, kThreads, 0, device().stream>>>(several, b, size, sums.partial);
  total_kernel<<<blocks.y, kThreads, 0, device().stream>>>(sums.partial, static_cast<int>(blocks.x),
                                                           sums.totals);
  check(cudaGetLastError());
  device().wait();
  return sums.totals;
}

// work(first, those from `first` on that one launch takes)
template <class Work>
void over_launches(const std::vector<const double*>& all, Work work) {
  for (std::size_t first = 0; first < all.size(); first += kSeveral) {
    Several<double> several{};
    several.count = static_cast<int>(std::min<std::size_t>(kSeveral, all.size() - first));
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), several.count, several.at);
    work(first, several);
  }
}

__global__ void row_squares_kernel(const float* __restrict__ a, Index cols, double* __restrict__ out) {
  const float* row = a + static_cast<Index>(blockIdx.x) * cols;
  double sum = 0;
  for (Index j = threadIdx.x; j < cols; j += kThreads) sum += static_cast<double>(row[j]) * row[j];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <class T>
__global__ void gather_kernel(const T* __restrict__ from, Index cols, Index tokens,
                              const std::int64_t* __restrict__ examples, T* __restrict__ to) {
  const Index row = blockIdx.x;
  const T* source = from + (examples[row / tokens] * tokens + row % tokens) * cols;
  for (Index j = threadIdx.x; j < cols; j += kThreads) to[row * cols + j] = source[j];
}

}  // namespace

template <class From, class To>
void convert(const From* from, Index size, To* to) {
  each(size, [=] __device__(Index i) { to[i] = static_cast<To>(from[i]); });
}

template <class T>
void add_scaled(double factor, const T* from, Index size, T* to) {
  const T f = static_cast<T>(factor);
  each(size, [=] __device__(Index i) { to[i] += f * from[i]; });
}

template <class T>
void scale_and_add(double factor, const T* z, Index size, T* a) {
  const T f = static_cast<T>(factor);
  each(size, [=] __device__(Index i) { a[i] = z[i] + f * a[i]; });
}

template <class T>
void scale(double factor, Index size, T* a) {
  const T f = static_cast<T>(factor);
  each(size, [=] __device__(Index i) { a[i] *= f; });
}

template <class T>
double inner_product(const T* a, const T* b, Index size) {
  if (size == 0) return 0;
  Several<T> one{};
  one.at[0] = a;
  one.count = 1;
  return *sums_of_products(one, b, size);
}

std::vector<double> inner_products(const std::vector<const double*>& a, const double* b, Index size) {
  std::vector<double> out(a.size());
  if (size == 0) return out;
  over_launches(a, [&](std::size_t first, const Several<double>& several) {
    std::copy_n(sums_of_products(several, b, size), several.count,
                out.begin() + static_cast<std::ptrdiff_t>(first));
  });
  return out;
}

void add_scaled(const std::vector<double>& factors, const std::vector<const double*>& from, Index size,
                double* to) {
  if (size == 0) return;
  over_launches(from, [&](std::size_t first, Several<double>& several) {
    std::copy_n(factors.begin() + static_cast<std::ptrdiff_t>(first), several.count, several.factors);
    add_several_kernel<<<blocks_for(size), kThreads, 0, device().stream>>>(several, size, to);
    check(cudaGetLastError());
  });
}

std::vector<double> row_squares_of(const float* a, Index rows, Index cols) {
  if (rows == 0) return {};
  DeviceArray<double> out(rows);
  row_squares_kernel<<<static_cast<unsigned>(rows), kThreads, 0, device().stream>>>(a, cols, out.data());
  check(cudaGetLastError());
  return out.to_host();
}

template <class T>
void gather_examples(const T* from, Index cols, Index tokens, const std::int64_t* examples, Index count,
                     T* to) {
  gather_kernel<T><<<static_cast<unsigned>(count * tokens), kThreads, 0, device().stream>>>(
      from, cols, tokens, examples, to);
  check(cudaGetLastError());
}

void adam_step(const AdamRate& rate, const float* gradient, Index size, const AdamState& state) {
  each(size, [=] __device__(Index i) {
    const float g = gradient[i];
    const float m = state.mean[i] + rate.mean_share * (g - state.mean[i]);
    const float s = state.square[i] + rate.square_share * (g * g - state.square[i]);
    const float v = state.value[i] - rate.along * m / (sqrtf(s * rate.unit) + rate.small);
    state.mean[i] = m;
    state.square[i] = s;
    state.value[i] = v;
    state.averaged[i] += rate.averaged_share * (v - state.averaged[i]);
  });
}

#define HEADLENS_FOR(T)                                                                  \
  template void add_scaled(double, const T*, Index, T*);                                 \
  template void scale_and_add(double, const T*, Index, T*);                              \
  template void scale(double, Index, T*);                                                \
  template double inner_product(const T*, const T*, Index);                              \
  template void gather_examples(const T*, Index, Index, const std::int64_t*, Index, T*); \
  template void convert(const T*, Index, float*);                                        \
  template void convert(const T*, Index, double*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
