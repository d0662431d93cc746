#include "cuda/features/rfa_tiles.hpp"

#include <cuda_pipeline.h>

#include <algorithm>

#include "cuda/features/weights.cuh"

namespace headlens::cuda {
namespace {

constexpr int kWarp = 32, kWarps = 8;  // a block prepares and computes kWarps sets at a time
constexpr int kSide = 16;              // heads of a warp; keys and columns of tiles
constexpr int kWidth = kSide + 1;      // the last column of a token is a one, added by itself
constexpr int kBlockHeads = kWarps * kSide;

// One set as the operands of tiles, whose numbers come as (high, high, low, low) of two neighbours. The order
// of the inner index of a product is free, so that the thread t of four that the tile gives the inner indices
// t and t + 4 takes the neighbours 2 t and 2 t + 1: those that a product before has left in its registers.
struct Set {
  float4 scores[2][kSide][4];  // [half][key][t]: columns 8 half + 2 t and the next
  float4 mix[2][kSide][4];     // [half][column][t]: keys 8 half + 2 t and the next, over the number of keys
  float4 query[kSide / 4];
  float there[kSide];  // column 16 of the keys: 1, or 0 for keys that are not there
  float inverse;       // 1 / N
  int keys;
};

struct Shared {
  Set sets[2][kWarps];
  float raw[kWarps][kWidth * kWidth];
};

// W_ij of the heads 2 g and 2 g + 1 of a warp and four columns of its thread (g, t), and a part of column 16.
struct HeadPair {
  float w[kWidth][2][4];
  float last[5][2];
};

struct Rows {
  std::int64_t first = 0;
  int keys = 0;
  bool there = false;
};

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int column_of(int t, int c) { return 8 * (c / 2) + 2 * t + c % 2; }

__device__ inline float rounded(float x) {
  return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

__device__ inline float4 split(float x, float y) {
  const float a = rounded(x), b = rounded(y);
  return {a, b, rounded(x - a), rounded(y - b)};
}

// c += a b for tiles of 16 x 8 and 8 x 8.
__device__ inline void tile_product(float (&c)[4], const float (&a)[4], float b0, float b1) {
  const auto bits = [](float x) { return __float_as_uint(x); };
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b0)), "r"(bits(b1)));
}

// c += a b, a as the registers of 16 heads, b from shared memory; the small products first.
__device__ inline void add_product(float (&c)[2][4], const float (&a)[4], const float4 (&b)[kSide][4]) {
  float high[4], low[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    high[e] = rounded(a[e]);
    low[e] = a[e] - high[e];  // of which the product takes 11 bits
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 x = b[8 * half + lane() / 4][lane() % 4];
    tile_product(c[half], low, x.x, x.y);
    tile_product(c[half], high, x.z, x.w);
    tile_product(c[half], high, x.x, x.y);
  }
}

__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ inline void load_heads(const float* __restrict__ weights, int width, int head, int stride,
                                  HeadPair& to) {
  const int t = lane() % 4;
  const auto at = [&](int i, int j, int h) {
    return i < width && j < width && head + h < stride ? weights[(i * width + j) * stride + head + h] : 0.f;
  };
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c) to.w[i][h][c] = at(i, column_of(t, c), h);
#pragma unroll
    for (int i = 0; i < 4; ++i) to.last[i][h] = at(4 * t + i, kSide, h);
    to.last[4][h] = t == 0 ? at(kSide, kSide, h) : 0.f;
  }
}

__device__ inline Rows rows_of(const std::int64_t* __restrict__ begin, int set, int count) {
  if (set >= count) return {};
  return {begin[set], static_cast<int>(begin[set + 1] - begin[set]) - 1, true};
}

// The tokens of a set travel to `raw` while others are computed.
__device__ inline void fetch(const float* __restrict__ tokens, const Rows& rows, int width, float* raw) {
  const int items = rows.there ? (rows.keys + 1) * width : 0;
  const float* from = tokens + rows.first * width;
#pragma unroll
  for (int e = lane(); e < kWidth * kWidth; e += kWarp)
    if (e < items)
      __pipeline_memcpy_async(raw + e, from + e, sizeof(float));
    else
      raw[e] = 0.f;
  __pipeline_commit();
}

// Columns beyond the last one hold what comes next: their weights are 0, and nothing is stored of them.
__device__ inline void prepare(const Rows& rows, int width, const float* raw, Set& to) {
  __pipeline_wait_prior(0);
  __syncwarp();
  const int keys = rows.there ? rows.keys : 1, two = lane() % 8;
  const float inverse = 1.f / static_cast<float>(keys);
#pragma unroll
  for (int row = lane() / 8; row < kSide; row += kWarp / 8) {
    const float *key = raw + (row + 1) * width + 2 * two, *column = raw + (2 * two + 1) * width + row;
    to.scores[two / 4][row][two % 4] = split(key[0], key[1]);
    to.mix[two / 4][row][two % 4] = split(inverse * column[0], inverse * column[width]);
  }
  if (lane() < kSide) {
    reinterpret_cast<float*>(to.query)[lane()] = raw[lane()];
    to.there[lane()] = lane() < keys ? 1.f : 0.f;
  } else if (lane() == kSide) {
    to.inverse = inverse;
    to.keys = keys;
  }
  __syncwarp();
}

// a_j of two heads and four columns, and a_16.
__device__ inline void project(const Set& set, const HeadPair& heads, float (&a)[4][2], float (&last)[2]) {
  const float4 own = set.query[lane() % 4];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    last[h] = heads.last[4][h] + heads.last[0][h] * own.x + heads.last[1][h] * own.y +
              heads.last[2][h] * own.z + heads.last[3][h] * own.w;
    last[h] = quad_sum(last[h]);
#pragma unroll
    for (int c = 0; c < 4; ++c) a[c][h] = heads.w[kSide][h][c];
  }
#pragma unroll
  for (int i = 0; i < kSide; i += 4) {
    const float4 x = set.query[i / 4];
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        a[c][h] += heads.w[i][h][c] * x.x;
        a[c][h] += heads.w[i + 1][h][c] * x.y;
        a[c][h] += heads.w[i + 2][h][c] * x.z;
        a[c][h] += heads.w[i + 3][h][c] * x.w;
      }
  }
}

// c[half][2 h + u]: head 2 g + h, key 8 half + 2 t + u.
__device__ inline void score_keys(const Set& set, const float (&a)[4][2], const float (&last)[2],
                                  float (&c)[2][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 x = *reinterpret_cast<const float2*>(set.there + column_of(lane() % 4, 2 * half));
    c[half][0] = last[0] * x.x, c[half][1] = last[0] * x.y;
    c[half][2] = last[1] * x.x, c[half][3] = last[1] * x.y;
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const float tile[4] = {a[2 * k][0], a[2 * k][1], a[2 * k + 1][0], a[2 * k + 1][1]};
    add_product(c, tile, set.scores[k]);
  }
}

// As weigh() of weights.cuh, for keys that four threads share. Returns what a mixture of keys over their
// number is multiplied by.
template <Score score>
__device__ inline float weigh_head(int keys, int h, float (&c)[2][4]) {
  const auto there = [&](int e) { return column_of(lane() % 4, e) < keys; };
  const auto at = [&](int e) -> float& { return c[e / 2][2 * h + e % 2]; };
  constexpr bool plain = score == Score::relu || score == Score::step;
  float highest = 0.f, sum = 0.f;
  if (score == Score::softmax) {
    highest = -INFINITY;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (there(e)) highest = fmaxf(highest, at(e));
    highest = quad_max(highest);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    at(e) = plain || there(e) ? weight(score, at(e) - highest) : 0.f;
    sum += at(e);
  }
  return score == Score::softmax ? static_cast<float>(keys) / quad_sum(sum) : 1.f;
}

// phi[half][2 h + u]: head 2 g + h, column 8 half + 2 t + u; last: column 16.
__device__ inline void mix_keys(const Set& set, const float (&c)[2][4], float (&phi)[2][4],
                                float (&last)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float tile[4] = {c[half][0], c[half][2], c[half][1], c[half][3]};
    add_product(phi, tile, set.mix[half]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h)
    last[h] = set.inverse * quad_sum((c[0][2 * h] + c[0][2 * h + 1]) + (c[1][2 * h] + c[1][2 * h + 1]));
}

__device__ inline void multiply_heads(float (&phi)[2][4], float (&last)[2], float first, float second) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    phi[e / 2][e % 2] *= first;
    phi[e / 2][2 + e % 2] *= second;
  }
  last[0] *= first, last[1] *= second;
}

// To out, which points at column 2 t of the first of two heads; poison stays 0 while every feature is finite.
__device__ inline void store(const float (&phi)[2][4], const float (&last)[2], int width, std::int64_t stride,
                             float* out, float& poison) {
  const int t = lane() % 4;
  const auto put = [&](bool there, float x, float y, float* to) {
    poison = fmaf(x, 0.f, fmaf(y, 0.f, poison));
    if (there) *reinterpret_cast<float2*>(to) = {x, y};
  };
#pragma unroll
  for (int e = 0; e < 4; ++e)
    put(column_of(t, e) < width, phi[e / 2][e % 2], phi[e / 2][2 + e % 2], out + column_of(0, e) * stride);
  put(t == 0 && kSide < width, last[0], last[1], out + kSide * stride);
}

// A block: kWarps sets at a time against kSide heads per warp. While a warp computes with all sets of one
// buffer, the tokens of its set of the next but one are on their way.
template <Score score>
__global__ __launch_bounds__(kWarps* kWarp,
                             1) void tile_kernel(const float* __restrict__ tokens,
                                                 const std::int64_t* __restrict__ begin, int count, int width,
                                                 const float* __restrict__ weights, int heads, int stride,
                                                 float* __restrict__ out, int* overflow) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, step = static_cast<int>(gridDim.x) * kWarps;
  const int head = static_cast<int>(blockIdx.y) * kBlockHeads + warp * kSide + lane() / 4 * 2;
  HeadPair pair;
  load_heads(weights, width, head, stride, pair);
  int group = static_cast<int>(blockIdx.x) * kWarps;
  Rows next = rows_of(begin, group + warp, count);
  fetch(tokens, next, width, shared.raw[warp]);
  prepare(next, width, shared.raw[warp], shared.sets[0][warp]);
  next = rows_of(begin, group + step + warp, count);
  fetch(tokens, next, width, shared.raw[warp]);
  Rows later = rows_of(begin, group + 2 * step + warp, count);
  __syncthreads();
  float poison = 0.f;
  const std::int64_t pitch = static_cast<std::int64_t>(width) * stride;
  out += head + lane() % 4 * 2 * static_cast<std::int64_t>(stride);
  for (int buffer = 0; group < count; group += step, buffer = 1 - buffer) {
    prepare(next, width, shared.raw[warp], shared.sets[1 - buffer][warp]);
    fetch(tokens, later, width, shared.raw[warp]);
    next = later;
    later = rows_of(begin, group + 3 * step + warp, count);
    float a[4][2], last[2];
    project(shared.sets[buffer][0], pair, a, last);
    float* to = out + group * pitch;
    const auto compute = [&](int s, bool is_last) {
      if (group + s >= count) return;
      const Set& set = shared.sets[buffer][s];
      float c[2][4], phi[2][4] = {}, phi_last[2];
      score_keys(set, a, last, c);
      // Of the next set, while the tensor cores are busy.
      if (!is_last) project(shared.sets[buffer][s + 1], pair, a, last);
      float scale[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) scale[h] = weigh_head<score>(set.keys, h, c);
      mix_keys(set, c, phi, phi_last);
      if constexpr (score == Score::softmax || score == Score::exp)  // the others give 0 to heads of zeros
        multiply_heads(phi, phi_last, head < heads ? scale[0] : 0.f, head + 1 < heads ? scale[1] : 0.f);
      if (head < stride) store(phi, phi_last, width, stride, to, poison);
      to += pitch;
    };
    for (int s = 0; s + 1 < kWarps; ++s) compute(s, false);
    compute(kWarps - 1, true);
    __syncthreads();
  }
  if (!(poison == 0.f)) *overflow = 1;
}

template <Score score>
void launch(const Tokens<float>& tokens, Index first, Index count, const Heads<float>& heads, float* out,
            int* overflow) {
  const auto kernel = tile_kernel<score>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)));
  // Blocks that stay, many times what the device holds at once: each loads its weights once.
  constexpr Index kBlocks = 2048;
  const Index across = (heads.stride + kBlockHeads - 1) / kBlockHeads;
  const Index along = std::min<Index>((count + kWarps - 1) / kWarps, kBlocks / across + 1);
  const dim3 grid(static_cast<unsigned>(along), static_cast<unsigned>(across));
  kernel<<<grid, kWarps * kWarp, sizeof(Shared), device().stream>>>(
      tokens.rows.data(), tokens.begin.data() + first, static_cast<int>(count),
      static_cast<int>(tokens.width), heads.weights.data(), static_cast<int>(heads.count),
      static_cast<int>(heads.stride), out, overflow);
  check(cudaGetLastError());
}

}  // namespace

bool suits_tiles(Index width, Index max_keys) {
  return width > kWidth / 2 + 1 && width <= kWidth && max_keys > kSide / 2 && max_keys <= kSide;
}

void tile_attention(const Tokens<float>& tokens, Index first, Index count, const Heads<float>& heads,
                    Score score, float* out, int* overflow) {
  const auto run = [&]<Score which>() { launch<which>(tokens, first, count, heads, out, overflow); };
  switch (score) {
    case Score::relu:
      return run.operator()<Score::relu>();
    case Score::softmax:
      return run.operator()<Score::softmax>();
    case Score::exp:
      return run.operator()<Score::exp>();
    case Score::step:
      return run.operator()<Score::step>();
  }
}

}  // namespace headlens::cuda
