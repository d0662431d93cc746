#include "cuda/layer/attention.hpp"

#include <algorithm>
#include <cmath>

namespace headlens::cuda {
namespace {

constexpr int kTile = 32, kWarps = 8, kRows = kTile / kWarps;  // a thread owns kRows entries of a tile
constexpr int kPad = kTile + 1;

// A block works on 32 rows of one head. Short examples share a block: `width` rows, a whole number of
// examples, attend to each other there, and weights between different examples are zero.
struct Group {
  Index rows, tokens, heads, width, tiles;

  __device__ Index first() const { return blockIdx.x / tiles * width; }   // row of the group
  __device__ Index offset() const { return blockIdx.x % tiles * kTile; }  // of the tile in the group
  __device__ Index count() const { return min(width, rows - first()); }   // rows of the group
  __device__ bool meet(Index a, Index b) const {
    return a / tokens == b / tokens && a < count() && b < count();
  }
  // Of the weight of row a over row b in P.
  __device__ Index at(Index head, Index a, Index b) const {
    return ((first() + a) * heads + head) * tokens + b % tokens;
  }
};

// Does row a of the group see row b? kMasked: there is a mask or padding; other layers do not pay for them.
template <bool kMasked>
__device__ bool sees(const Group& group, const AttentionShape& shape, Index a, Index b) {
  if (!group.meet(a, b)) return false;
  if constexpr (kMasked) {
    if (shape.causal && b > a) return false;
    if (!shape.lengths) return true;
    const Index length = shape.lengths[(group.first() + a) / group.tokens];
    return a % group.tokens < length && b % group.tokens < length;
  }
  return true;
}

template <class T>
using Tile = T[kTile][kPad];

// tile = rows first .. first + 31 (below `limit`), columns column .. column + 31 (below `columns`) of a.
template <class T>
__device__ void load(Tile<T>& tile, const T* a, Index stride, Index first, Index limit, Index column,
                     Index columns) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int r = threadIdx.y + i * kWarps;
    const bool inside = first + r < limit && column + threadIdx.x < columns;
    tile[r][threadIdx.x] = inside ? a[(first + r) * stride + column + threadIdx.x] : T(0);
  }
}

// Some columns of activations of the group.
template <class T>
struct Part {
  const T* data;  // the group's first row, the part's first column
  Index stride, columns;
};

// s (32, width) = sum over pairs of a b^T, a at the rows of the tile.
template <class T, int kPairs>
__device__ void outer_products(const Group& group, const Part<T> (&a)[kPairs], const Part<T> (&b)[kPairs],
                               T* s, Index stride, Tile<T>& left, Tile<T>& right) {
  for (Index key = 0; key < group.width; key += kTile) {
    T sum[kRows] = {};
    for (int pair = 0; pair < kPairs; ++pair)
      for (Index j = 0; j < a[pair].columns; j += kTile) {
        load(left, a[pair].data, a[pair].stride, group.offset(), group.count(), j, a[pair].columns);
        load(right, b[pair].data, b[pair].stride, key, group.count(), j, b[pair].columns);
        __syncthreads();
#pragma unroll 8
        for (int l = 0; l < kTile; ++l)
#pragma unroll
          for (int i = 0; i < kRows; ++i) sum[i] += left[threadIdx.y + i * kWarps][l] * right[threadIdx.x][l];
        __syncthreads();
      }
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (key + threadIdx.x < group.width)
        s[(threadIdx.y + i * kWarps) * stride + key + threadIdx.x] = sum[i];
  }
  __syncthreads();
}

// out (32, columns) = sum over pairs of s v, v at the rows of the whole group.
template <class T, int kPairs>
__device__ void mixtures(const Group& group, const T* const (&s)[kPairs], Index stride,
                         const Part<T> (&v)[kPairs], T* out, Index out_stride, Tile<T>& right) {
  for (Index column = 0; column < v[0].columns; column += kTile) {
    T sum[kRows] = {};
    for (int pair = 0; pair < kPairs; ++pair)
      for (Index key = 0; key < group.width; key += kTile) {
        load(right, v[pair].data, v[pair].stride, key, group.count(), column, v[pair].columns);
        __syncthreads();
        const int most = static_cast<int>(min(Index{kTile}, group.width - key));
        for (int l = 0; l < most; ++l)
#pragma unroll
          for (int i = 0; i < kRows; ++i)
            sum[i] += s[pair][(threadIdx.y + i * kWarps) * stride + key + l] * right[l][threadIdx.x];
        __syncthreads();
      }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Index r = group.offset() + threadIdx.y + i * kWarps;
      if (r < group.count() && column + threadIdx.x < v[0].columns)
        out[r * out_stride + column + threadIdx.x] = sum[i];
    }
  }
}

// Heads that have the same columns of K and V. kShared: there may be more than one.
template <bool kShared>
struct Sharing {
  Index first, end;

  __device__ explicit Sharing(const AttentionShape& shape)
      : first(kShared ? blockIdx.y * shape.shared : blockIdx.y),
        end(kShared ? min(first + shape.shared, shape.heads) : first + 1) {}
};

// out (32 keys, columns) = sum over heads of weights^T v, the weights of all rows of the group over the keys
// of the tile. The heads' v lie side by side.
template <class T, bool kShared>
__device__ void turned_mixtures(const Group& group, const Sharing<kShared>& heads, const T* weights,
                                const Part<T>& v, T* out, Index out_stride, Tile<T>& left, Tile<T>& right) {
  for (Index column = 0; column < v.columns; column += kTile) {
    T sum[kRows] = {};
    for (Index head = heads.first; head < heads.end; ++head)
      for (Index row = 0; row < group.width; row += kTile) {
        load(right, v.data + (head - heads.first) * v.columns, v.stride, row, group.count(), column,
             v.columns);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const int r = threadIdx.y + i * kWarps;
          const Index a = row + r, b = group.offset() + threadIdx.x;
          left[r][threadIdx.x] = group.meet(a, b) ? weights[group.at(head, a, b)] : T(0);
        }
        __syncthreads();
#pragma unroll 8
        for (int l = 0; l < kTile; ++l)
#pragma unroll
          for (int i = 0; i < kRows; ++i) sum[i] += left[l][threadIdx.y + i * kWarps] * right[l][threadIdx.x];
        __syncthreads();
      }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Index r = group.offset() + threadIdx.y + i * kWarps;
      if (r < group.count() && column + threadIdx.x < v.columns)
        out[r * out_stride + column + threadIdx.x] = sum[i];
    }
  }
}

template <class T>
__device__ T warp_sum(T value) {
  for (int step = kTile / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}
template <class T>
__device__ T warp_max(T value) {
  for (int step = kTile / 2; step > 0; step /= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// s: logits become weights, which are written to p as well. A warp to a row.
template <class T, bool kMasked>
__device__ void softmax_rows(const Group& group, const AttentionShape& shape, T* s, Index stride, T* p) {
#pragma unroll 1
  for (int i = 0; i < kRows; ++i) {
    const int r = threadIdx.y + i * kWarps;
    const Index a = group.offset() + r;
    T largest = -INFINITY, total = 0;
    for (Index b = threadIdx.x; b < group.width; b += kTile)
      if (sees<kMasked>(group, shape, a, b)) largest = max(largest, s[r * stride + b]);
    largest = warp_max(largest);
    for (Index b = threadIdx.x; b < group.width; b += kTile) {
      const T weight = sees<kMasked>(group, shape, a, b) ? exp(s[r * stride + b] - largest) : T(0);
      s[r * stride + b] = weight;
      total += weight;
    }
    total = warp_sum(total);
    if (kMasked && total == T(0)) total = 1;  // a row of padding, of zeros
    for (Index b = threadIdx.x; b < group.width; b += kTile) {
      if (!group.meet(a, b)) continue;
      p[group.at(blockIdx.y, a, b)] = s[r * stride + b] /= total;
    }
  }
  __syncthreads();
}

// weights = P of the tile, and s = P * (s - <P, s>), row by row.
template <class T>
__device__ void bend_rows(const Group& group, const T* p, T* weights, T* s, Index stride) {
#pragma unroll 1
  for (int i = 0; i < kRows; ++i) {
    const int r = threadIdx.y + i * kWarps;
    const Index a = group.offset() + r;
    T along = 0;
    for (Index b = threadIdx.x; b < group.width; b += kTile) {
      const T weight = group.meet(a, b) ? p[group.at(blockIdx.y, a, b)] : T(0);
      weights[r * stride + b] = weight;
      along += weight * s[r * stride + b];
    }
    along = warp_sum(along);
    for (Index b = threadIdx.x; b < group.width; b += kTile)
      s[r * stride + b] = weights[r * stride + b] * (s[r * stride + b] - along);
  }
  __syncthreads();
}

extern __shared__ double shared_memory[];

template <class T, bool kMasked>
__global__ void forward_kernel(Group group, AttentionShape shape, const T* __restrict__ z, T* __restrict__ p,
                               T* __restrict__ phi) {
  __shared__ Tile<T> left, right;
  T* s = reinterpret_cast<T*>(shared_memory);
  const backend::HeadColumns c = shape.columns[blockIdx.y];
  const Index stride = group.width + 1, wide = shape.parameter_columns;
  const T* here = z + group.first() * wide;
  const Part<T> q[1] = {{here + c.q, wide, c.logits}}, k[1] = {{here + c.k, wide, c.logits}},
                v[1] = {{here + c.v, wide, c.values}};
  outer_products<T, 1>(group, q, k, s, stride, left, right);
  softmax_rows<T, kMasked>(group, shape, s, stride, p);
  const T* const weights[1] = {s};
  mixtures<T, 1>(group, weights, stride, v, phi + group.first() * shape.value_columns + c.o,
                 shape.value_columns, right);
}

template <class T>
__global__ void along_kernel(Group group, AttentionShape shape, const T* __restrict__ z,
                             const T* __restrict__ p, const T* __restrict__ dz, T* __restrict__ dphi) {
  __shared__ Tile<T> left, right;
  const Index stride = group.width + 1, wide = shape.parameter_columns;
  T *s = reinterpret_cast<T*>(shared_memory), *weights = s + kTile * stride;
  const backend::HeadColumns c = shape.columns[blockIdx.y];
  const T *here = z + group.first() * wide, *moved = dz + group.first() * wide;
  const Part<T> a[2] = {{moved + c.q, wide, c.logits}, {here + c.q, wide, c.logits}},
                b[2] = {{here + c.k, wide, c.logits}, {moved + c.k, wide, c.logits}},
                v[2] = {{here + c.v, wide, c.values}, {moved + c.v, wide, c.values}};
  outer_products<T, 2>(group, a, b, s, stride, left, right);
  bend_rows(group, p, weights, s, stride);
  const T* const both[2] = {s, weights};
  mixtures<T, 2>(group, both, stride, v, dphi + group.first() * shape.value_columns + c.o,
                 shape.value_columns, right);
}

// C and the part of the queries.
template <class T>
__global__ void back_rows_kernel(Group group, AttentionShape shape, const T* __restrict__ z,
                                 const T* __restrict__ p, const T* __restrict__ g, T* __restrict__ c_out,
                                 T* __restrict__ back) {
  __shared__ Tile<T> left, right;
  const Index stride = group.width + 1, wide = shape.parameter_columns;
  T *s = reinterpret_cast<T*>(shared_memory), *weights = s + kTile * stride;
  const backend::HeadColumns c = shape.columns[blockIdx.y];
  const T* here = z + group.first() * wide;
  const Part<T> out[1] = {{g + group.first() * shape.value_columns + c.o, shape.value_columns, c.values}},
                v[1] = {{here + c.v, wide, c.values}}, k[1] = {{here + c.k, wide, c.logits}};
  outer_products<T, 1>(group, out, v, s, stride, left, right);
  bend_rows(group, p, weights, s, stride);
  for (int i = 0; i < kRows; ++i) {
    const int r = threadIdx.y + i * kWarps;
    const Index a = group.offset() + r;
    for (Index b = threadIdx.x; b < group.width; b += kTile)
      if (group.meet(a, b)) c_out[group.at(blockIdx.y, a, b)] = s[r * stride + b];
  }
  const T* const bent[1] = {s};
  mixtures<T, 1>(group, bent, stride, k, back + group.first() * wide + c.q, wide, right);
}

// The parts of the keys and the values, of heads that share them at once.
template <class T, bool kShared>
__global__ void back_columns_kernel(Group group, AttentionShape shape, const T* __restrict__ z,
                                    const T* __restrict__ p, const T* __restrict__ g,
                                    const T* __restrict__ c_in, T* __restrict__ back) {
  __shared__ Tile<T> left, right;
  const Index wide = shape.parameter_columns;
  const Sharing<kShared> heads(shape);
  const backend::HeadColumns c = shape.columns[heads.first];
  const Part<T> q{z + group.first() * wide + c.q, wide, c.logits},
      out{g + group.first() * shape.value_columns + c.o, shape.value_columns, c.values};
  T* to = back + group.first() * wide;
  turned_mixtures(group, heads, c_in, q, to + c.k, wide, left, right);
  turned_mixtures(group, heads, p, out, to + c.v, wide, left, right);
}

Group group_of(const AttentionShape& shape) {
  const Index together = std::max<Index>(1, kTile / shape.tokens), width = together * shape.tokens;
  return {shape.rows, shape.tokens, shape.heads, width, (width + kTile - 1) / kTile};
}

// heads: of the grid.
template <class Kernel, class... Arguments>
void launch(Kernel kernel, const AttentionShape& shape, Index heads, std::size_t row_bytes,
            const Arguments&... arguments) {
  if (shape.rows == 0) return;
  const Group group = group_of(shape);
  const Index groups = (shape.rows + group.width - 1) / group.width;
  const dim3 grid(static_cast<unsigned>(groups * group.tiles), static_cast<unsigned>(heads));
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(kTile * (group.width + 1));
  if (bytes > 0)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  kernel<<<grid, dim3(kTile, kWarps), bytes, device().stream>>>(group, shape, arguments...);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void attend(const AttentionShape& shape, const T* z, T* p, T* phi) {
  const bool masked = shape.causal || shape.lengths;
  launch(masked ? forward_kernel<T, true> : forward_kernel<T, false>, shape, shape.heads, sizeof(T), z, p,
         phi);
}

template <class T>
void attend_along(const AttentionShape& shape, const T* z, const T* p, const T* dz, T* dphi) {
  launch(along_kernel<T>, shape, shape.heads, 2 * sizeof(T), z, p, dz, dphi);
}

template <class T>
void attend_back(const AttentionShape& shape, const T* z, const T* p, const T* g, T* c, T* back) {
  launch(back_rows_kernel<T>, shape, shape.heads, 2 * sizeof(T), z, p, g, c, back);
  const bool shared = shape.shared > 1;
  launch(shared ? back_columns_kernel<T, true> : back_columns_kernel<T, false>, shape,
         (shape.heads + shape.shared - 1) / shape.shared, 0, z, p, g, static_cast<const T*>(c), back);
}

#define HEADLENS_FOR(T)                                                                \
  template void attend(const AttentionShape&, const T*, T*, T*);                       \
  template void attend_along(const AttentionShape&, const T*, const T*, const T*, T*); \
  template void attend_back(const AttentionShape&, const T*, const T*, const T*, T*, T*);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
