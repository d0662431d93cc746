#include "cuda/features/rfa.hpp"

#include <algorithm>

#include "cuda/features/weights.cuh"

namespace headlens::cuda {
namespace {

constexpr int kWarp = 32, kWarps = 4, kSets = 4;                        // a warp has kSets sets at a time
constexpr int kHeadsOf(std::size_t item) { return item == 4 ? 2 : 1; }  // of a thread
constexpr std::size_t kTokenBytes = 40 << 10, kWeightBytes = 80 << 10;  // of shared memory

template <class T>
struct alignas(16) Four {
  T of[kSets];
};

// A slice of the weights, columns [begin, end) of every head of the block: [j][i][head] in shared memory,
// with a column of zeros where their number is odd.
template <class T, int H>
__device__ inline void load_weights(const T* __restrict__ weights, int begin, int end, int width, int head,
                                    int stride, T* to) {
  constexpr int heads = kWarp * H;
  const int m = threadIdx.x % heads, columns = (end - begin + 1) / 2 * 2;
  for (int row = threadIdx.x / heads; row < columns * width; row += kWarps * kWarp / heads) {
    const int j = begin + row / width, i = row % width;
    const bool there = head + m < stride && j < end;
    to[row * heads + m] =
        there ? weights[(static_cast<std::int64_t>(i) * width + j) * stride + head + m] : T(0);
  }
}

// c_k of kSets sets and H heads, from the columns [begin, end) of the weights, two at a time: a number of a
// token that is loaded once meets 2 H heads. Beyond the last column a_j is 0, whatever the token.
template <class T, int H, int K>
__device__ inline void add_scores(const Four<T>* tokens, const T* w, int begin, int end, int width,
                                  T (&c)[H][kSets][K]) {
  constexpr int heads = kWarp * H;
  for (int j = begin; j < end; j += 2) {
    T a[2][H][kSets] = {};
    const T* column = w + (j - begin) * width * heads + threadIdx.x % kWarp;
#pragma unroll 4
    for (int i = 0; i < width; ++i) {
      const Four<T> x = tokens[i];
#pragma unroll
      for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int h = 0; h < H; ++h) {
          const T wij = column[(u * width + i) * heads + h * kWarp];
#pragma unroll
          for (int s = 0; s < kSets; ++s) a[u][h][s] += wij * x.of[s];
        }
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const Four<T> x = tokens[(k + 1) * width + j + u];
#pragma unroll
        for (int h = 0; h < H; ++h)
#pragma unroll
          for (int s = 0; s < kSets; ++s) c[h][s][k] += a[u][h][s] * x.of[s];
      }
  }
}

// phi of kSets sets and H heads to out, whose sets lie `pitch` apart; 0 while every feature is finite.
template <class T, int H, int K>
__device__ inline T mix(const Four<T>* tokens, const T (&c)[H][kSets][K], const T (&scale)[H][kSets],
                        int width, int stride, std::int64_t pitch, int sets, int heads, T* out) {
  T poison = T(0);
  for (int j = 0; j < width; ++j, out += stride) {
    T phi[H][kSets] = {};
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Four<T> x = tokens[(k + 1) * width + j];
#pragma unroll
      for (int h = 0; h < H; ++h)
#pragma unroll
        for (int s = 0; s < kSets; ++s) phi[h][s] += c[h][s][k] * x.of[s];
    }
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      T* to = out + s * pitch;
#pragma unroll
      for (int h = 0; h < H; ++h) {
        const T value = phi[h][s] * scale[h][s];
        poison += value * T(0);
        if (s < sets && h * kWarp < heads) to[h * kWarp] = value;
      }
    }
  }
  return poison;
}

// The tokens of kSets sets from `set` on to [token][j][set], by one warp, and the keys of each.
template <class T, int K>
__device__ inline void load_tokens(const T* __restrict__ rows, const std::int64_t* __restrict__ begin,
                                   int set, int count, int width, int (&keys)[kSets], Four<T>* tokens) {
  const int lane = threadIdx.x % kWarp;
  int items[kSets];
  const T* from[kSets];
#pragma unroll
  for (int s = 0; s < kSets; ++s) {
    const bool there = set + s < count;
    const std::int64_t row = there ? begin[set + s] : 0;
    items[s] = there ? static_cast<int>(begin[set + s + 1] - row) * width : 0;
    keys[s] = there ? items[s] / width - 1 : 1;
    from[s] = rows + row * width;
  }
  __syncwarp();
#pragma unroll 4  // so that many loads are under way at once
  for (int e = lane; e < (K + 1) * width; e += kWarp) {
    Four<T> x;
#pragma unroll
    for (int s = 0; s < kSets; ++s) x.of[s] = e < items[s] ? from[s][e] : T(0);
    tokens[e] = x;
  }
  if (lane == 0) tokens[(K + 1) * width] = {};
  __syncwarp();
}

// Scores become weights; what remains to be multiplied with is 0 for heads that are padding, whose scores
// need not be 0.
template <class T, int H, int K>
__device__ inline void weigh_all(Score score, const int (&keys)[kSets], int left, T (&c)[H][kSets][K],
                                 T (&scale)[H][kSets]) {
#pragma unroll
  for (int h = 0; h < H; ++h)
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      const T factor = weigh<T, K>(score, keys[s], c[h][s]);
      scale[h][s] = h * kWarp < left ? factor : T(0);
    }
}

// One warp: kSets sets at a time against kWarp H heads. Shared: a slice of the weights for all warps, loaded
// once if it is all of them, and the tokens of each warp's sets, [token][j][set].
template <class T, int H, int K>
__global__ __launch_bounds__(kWarps* kWarp, 2) void small_kernel(const T* __restrict__ rows,
                                                                 const std::int64_t* __restrict__ begin,
                                                                 int count, int width,
                                                                 const T* __restrict__ weights, int heads,
                                                                 int stride, int slice, Score score,
                                                                 T* __restrict__ out, int* overflow) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int head = static_cast<int>(blockIdx.y) * kWarp * H;
  T* w = reinterpret_cast<T*>(shared);
  Four<T>* tokens =
      reinterpret_cast<Four<T>*>(w + (slice + 1) / 2 * 2 * width * kWarp * H) + warp * ((K + 1) * width + 1);
  const bool whole = slice >= width;
  if (whole) load_weights<T, H>(weights, 0, width, width, head, stride, w);
  __syncthreads();
  bool finite = true;
  constexpr int kStep = kWarps * kSets;
  const std::int64_t pitch = static_cast<std::int64_t>(width) * stride;
  for (int group = static_cast<int>(blockIdx.x) * kStep; group < count; group += gridDim.x * kStep) {
    const int set = group + warp * kSets;
    int keys[kSets];
    load_tokens<T, K>(rows, begin, set, count, width, keys, tokens);
    T c[H][kSets][K] = {};
    if (whole)
      add_scores<T, H, K>(tokens, w, 0, width, width, c);
    else
      for (int j = 0; j < width; j += slice) {
        __syncthreads();
        load_weights<T, H>(weights, j, min(width, j + slice), width, head, stride, w);
        __syncthreads();
        add_scores<T, H, K>(tokens, w, j, min(width, j + slice), width, c);
      }
    T scale[H][kSets];
    weigh_all<T, H, K>(score, keys, heads - head - lane, c, scale);
    const T poison = mix<T, H, K>(tokens, c, scale, width, stride, pitch, count - set, stride - head - lane,
                                  out + set * pitch + head + lane);
    finite = finite && poison == T(0);
  }
  if (!finite) *overflow = 1;
}

constexpr int kChunk = 16, kAnyHeads = 128;

// The scores of a chunk become weights. Returns what the sums so far are multiplied by.
template <class T>
__device__ T weigh_chunk(Score score, int key, int keys, T (&c)[kChunk], T& highest, T& sum) {
  T before = T(1);
  if (score == Score::softmax) {
    T top = key == 0 ? c[0] : highest;
#pragma unroll
    for (int k = 0; k < kChunk; ++k)
      if (key + k < keys) top = c[k] > top ? c[k] : top;
    before = key == 0 ? T(0) : exponential(highest - top);
    highest = top;
    sum *= before;
  }
#pragma unroll
  for (int k = 0; k < kChunk; ++k) {
    c[k] = key + k < keys ? weight(score, c[k] - highest) : T(0);
    sum += c[k];
  }
  return before;
}

// A block: one set against kAnyHeads heads; keys in chunks, their scores in registers, sums in `out`.
template <class T>
__global__ void any_kernel(const T* __restrict__ rows, const std::int64_t* __restrict__ begin, int first,
                           int width, const T* __restrict__ projected, int heads, int stride, Score score,
                           T* __restrict__ out, int* overflow) {
  __shared__ T tile[kChunk][kChunk + 1];  // [j][k]
  const std::int64_t set = blockIdx.x, from = begin[first + set] + 1;
  const int keys = static_cast<int>(begin[first + set + 1] - from);
  const int m = static_cast<int>(blockIdx.y) * kAnyHeads + static_cast<int>(threadIdx.x);
  const bool there = m < stride;
  const T* a = projected + set * width * stride + m;
  T* phi = out + set * width * stride + m;
  const auto load = [&](int key, int j) {  // tokens of the chunk, columns j .. j + kChunk
    __syncthreads();
    for (int e = threadIdx.x; e < kChunk * kChunk; e += kAnyHeads) {
      const int k = e / kChunk, column = e % kChunk;
      tile[column][k] =
          key + k < keys && j + column < width ? rows[(from + key + k) * width + j + column] : T(0);
    }
    __syncthreads();
  };
  T highest = T(0), sum = T(0);
  bool finite = true;
  for (int key = 0; key < keys; key += kChunk) {
    T c[kChunk] = {};
    for (int j = 0; j < width; j += kChunk) {
      load(key, j);
      for (int column = 0; there && column < min(kChunk, width - j); ++column) {
        const T aj = a[static_cast<std::int64_t>(j + column) * stride];
#pragma unroll
        for (int k = 0; k < kChunk; ++k) c[k] += aj * tile[column][k];
      }
    }
    const T before = weigh_chunk(score, key, keys, c, highest, sum);
    const bool last = key + kChunk >= keys;
    const T scale = !last ? T(1) : T(1) / (score == Score::softmax ? sum : static_cast<T>(keys));
    for (int j = 0; j < width; j += kChunk) {
      load(key, j);
      for (int column = 0; there && column < min(kChunk, width - j); ++column) {
        T* to = phi + static_cast<std::int64_t>(j + column) * stride;
        T value = key == 0 ? T(0) : *to * before;
#pragma unroll
        for (int k = 0; k < kChunk; ++k) value += c[k] * tile[column][k];
        value = m < heads ? value * scale : T(0);
        finite = finite && isfinite(value);
        *to = value;
      }
    }
  }
  if (!finite) *overflow = 1;
}

template <class T>
__global__ void gather_kernel(const T* __restrict__ rows, const std::int64_t* __restrict__ begin, Index first,
                              Index items, Index width, T* __restrict__ to) {
  const Index e = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e < items) to[e] = rows[begin[first + e / width] * width + e % width];
}

template <class T>
__global__ void rectify_kernel(T* __restrict__ a, Index items, Index columns, Index used, int* overflow) {
  const Index e = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= items) return;
  const T value = e % columns < used ? weight(Score::relu, a[e]) : T(0);
  if (!isfinite(value)) *overflow = 1;
  a[e] = value;
}

unsigned blocks_of(Index items, Index size) { return static_cast<unsigned>((items + size - 1) / size); }

template <class T, int K>
void launch_small(const Tokens<T>& tokens, Index first, Index count, const Heads<T>& heads, Score score,
                  T* out, int* overflow) {
  constexpr int H = kHeadsOf(sizeof(T));
  const Index width = tokens.width;
  const Index slice =
      std::clamp<Index>(static_cast<Index>(kWeightBytes / sizeof(T)) / (width * kWarp * H), 1, width);
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>((slice + 1) / 2 * 2 * width * kWarp * H) +
                            sizeof(Four<T>) * static_cast<std::size_t>(kWarps * ((K + 1) * width + 1));
  const auto kernel = small_kernel<T, H, K>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  // Blocks that stay, a few times as many as the device holds at once: the weights are loaded once by each.
  constexpr Index kBlocks = 2048;
  const Index across = blocks_of(heads.stride, kWarp * H);
  const dim3 grid(
      static_cast<unsigned>(std::min<Index>(blocks_of(count, kWarps * kSets), kBlocks / across + 1)),
      static_cast<unsigned>(across));
  kernel<<<grid, kWarps * kWarp, bytes, device().stream>>>(
      tokens.rows.data(), tokens.begin.data() + first, static_cast<int>(count), static_cast<int>(width),
      heads.weights.data(), static_cast<int>(heads.count), static_cast<int>(heads.stride),
      static_cast<int>(slice), score, out, overflow);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
bool is_small(Index width, Index max_keys) {
  return max_keys <= 16 && static_cast<std::size_t>(kWarps * 17 * width) * sizeof(Four<T>) <= kTokenBytes &&
         static_cast<std::size_t>(kWarp * kHeadsOf(sizeof(T)) * width) * sizeof(T) <= kWeightBytes;
}

template <class T>
void small_attention(const Tokens<T>& tokens, Index first, Index count, const Heads<T>& heads, Score score,
                     T* out, int* overflow) {
  if (tokens.max_keys <= 8) return launch_small<T, 8>(tokens, first, count, heads, score, out, overflow);
  launch_small<T, 16>(tokens, first, count, heads, score, out, overflow);
}

template <class T>
void any_attention(const Tokens<T>& tokens, Index first, Index count, const T* projected,
                   const Heads<T>& heads, Score score, T* out, int* overflow) {
  const dim3 grid(static_cast<unsigned>(count), blocks_of(heads.stride, kAnyHeads));
  any_kernel<T><<<grid, kAnyHeads, 0, device().stream>>>(
      tokens.rows.data(), tokens.begin.data(), static_cast<int>(first), static_cast<int>(tokens.width),
      projected, static_cast<int>(heads.count), static_cast<int>(heads.stride), score, out, overflow);
  check(cudaGetLastError());
}

template <class T>
void gather_queries(const Tokens<T>& tokens, Index first, Index count, T* to) {
  const Index items = count * tokens.width;
  gather_kernel<T><<<blocks_of(items, 256), 256, 0, device().stream>>>(
      tokens.rows.data(), tokens.begin.data(), first, items, tokens.width, to);
  check(cudaGetLastError());
}

template <class T>
void rectify(T* a, Index rows, Index columns, Index used, int* overflow) {
  const Index items = rows * columns;
  rectify_kernel<T><<<blocks_of(items, 256), 256, 0, device().stream>>>(a, items, columns, used, overflow);
  check(cudaGetLastError());
}

#define HEADLENS_FOR(T)                                                                                    \
  template bool is_small<T>(Index, Index);                                                                 \
  template void small_attention(const Tokens<T>&, Index, Index, const Heads<T>&, Score, T*, int*);         \
  template void any_attention(const Tokens<T>&, Index, Index, const T*, const Heads<T>&, Score, T*, int*); \
  template void gather_queries(const Tokens<T>&, Index, Index, T*);                                        \
  template void rectify(T*, Index, Index, Index, int*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
