#include "cuda/kernels/closed_form.hpp"
#include "cuda/kernels/moments.cuh"

namespace headlens::cuda {
namespace {

constexpr int kTile = static_cast<int>(kPairTile), kKeys = 4, kDepth = 20;

struct Side {
  const double *queries, *keys, *argument, *deviation, *weight, *factor;
  const std::int64_t* begin;
  Index sets;
  int width;
  bool mlp;
};

Side view(const KernelSide& side) {
  return {side.queries.data(),
          side.keys.data(),
          side.argument.data(),
          side.deviation.data(),
          side.weight.data(),
          side.factor.data(),
          side.begin.data(),
          side.sets,
          static_cast<int>(side.width),
          side.mlp};
}

// Keys that are parallel up to rounding are parallel: a step has infinite slope there.
__device__ inline double snapped(double rho) {
  constexpr double kParallel = 1 - 8 * 2.220446049250313e-16;
  return fabs(rho) < kParallel ? rho : copysign(1.0, rho);
}

// What the moments need of a key; a weight of 0 for one that is not there.
struct Key {
  double weight = 0, argument = 0, deviation = 0;
};

template <Form form>
__device__ inline Key key_of(const Side& side, Index begin, int key, int keys) {
  if (key >= keys) return {};
  Key out{side.weight[begin + key]};
  if (form != Form::arc_cosine) out.argument = side.argument[begin + key];
  if (form == Form::exponential) out.deviation = side.deviation[begin + key];
  return out;
}

template <Form form>
__device__ inline double moment(const Key& a, const Key& b, double rho) {
  if (form == Form::arc_cosine) return arc_cosine_moment(rho);
  if (a.weight == 0 || b.weight == 0) return 0;
  rho = fmin(1.0, fmax(-1.0, rho));
  if (form == Form::relu) return relu_moment(a.argument, b.argument, rho);
  if (form == Form::step) return step_moment(a.argument, b.argument, snapped(rho));
  if (form == Form::exponential) return exp(a.argument + b.argument + a.deviation * b.deviation * rho);
  return a.argument * b.argument;
}

// Coordinates [depth, depth + kDepth) of kKeys keys, from `key` on, of the sets of a tile:
// [coordinate][key][set].
__device__ inline void load_keys(const Side& side, Index set, int key, int depth,
                                 double (&to)[kDepth][kKeys][kTile]) {
  for (int e = threadIdx.y * kTile + threadIdx.x; e < kDepth * kKeys * kTile; e += kTile * kTile) {
    const int coordinate = e % kDepth, k = e / kDepth % kKeys, s = e / kDepth / kKeys;
    double value = 0;
    if (set + s < side.sets && depth + coordinate < side.width) {
      const Index row = side.begin[set + s] + key + k;
      if (row < side.begin[set + s + 1]) value = side.keys[row * side.width + depth + coordinate];
    }
    to[coordinate][k][s] = value;
  }
}

template <Form form>
__device__ double pair_sum(const Side& a, Index row, const Side& b, Index column, int most_a, int most_b) {
  __shared__ double left[kDepth][kKeys][kTile], right[kDepth][kKeys][kTile];
  const Index s = row + threadIdx.y, t = column + threadIdx.x;
  const bool there = s < a.sets && t < b.sets;
  double query = 1;
  if (!a.mlp && there) {
    query = 0;
    for (int j = 0; j < a.width; ++j) query += a.queries[s * a.width + j] * b.queries[t * a.width + j];
  }
  const Index begin_a = there ? a.begin[s] : 0, begin_b = there ? b.begin[t] : 0;
  const int keys_a = there ? static_cast<int>(a.begin[s + 1] - begin_a) : 0;
  const int keys_b = there ? static_cast<int>(b.begin[t + 1] - begin_b) : 0;
  double sum = 0;
  for (int i = 0; i < most_a; i += kKeys)
    for (int j = 0; j < most_b; j += kKeys) {
      double cosine[kKeys][kKeys] = {};
      for (int depth = 0; depth < a.width; depth += kDepth) {
        __syncthreads();
        load_keys(a, row, i, depth, left);
        load_keys(b, column, j, depth, right);
        __syncthreads();
#pragma unroll 4
        for (int c = 0; c < min(kDepth, a.width - depth); ++c) {
          double x[kKeys], y[kKeys];
#pragma unroll
          for (int k = 0; k < kKeys; ++k) x[k] = left[c][k][threadIdx.y], y[k] = right[c][k][threadIdx.x];
#pragma unroll
          for (int k = 0; k < kKeys; ++k)
#pragma unroll
            for (int l = 0; l < kKeys; ++l) cosine[k][l] += x[k] * y[l];
        }
      }
      Key own[kKeys], other[kKeys];
#pragma unroll
      for (int k = 0; k < kKeys; ++k)
        own[k] = key_of<form>(a, begin_a, i + k, keys_a), other[k] = key_of<form>(b, begin_b, j + k, keys_b);
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        double of_key = 0;
#pragma unroll
        for (int l = 0; l < kKeys; ++l)
          of_key += other[l].weight * (a.mlp ? 1.0 : cosine[k][l]) *
                    moment<form>(own[k], other[l], query * cosine[k][l]);
        sum += own[k].weight * of_key;
      }
    }
  return there ? a.factor[s] * b.factor[t] * sum : 0;
}

template <class T, Form form>
__global__ __launch_bounds__(kTile* kTile) void pair_kernel(Side a, Side b, bool symmetric, bool once,
                                                            Index first, Index rows, int most_a, int most_b,
                                                            T* __restrict__ out, int* overflow) {
  const Index row = first + static_cast<Index>(blockIdx.y) * kTile,
              column = static_cast<Index>(blockIdx.x) * kTile;
  const bool swapped = symmetric && column > row;
  if (swapped && once) return;
  const double value = pair_sum<form>(a, swapped ? column : row, b, swapped ? row : column, most_a, most_b);
  const Index s = row + (swapped ? threadIdx.x : threadIdx.y),
              t = column + (swapped ? threadIdx.y : threadIdx.x);
  if (s >= first + rows || t >= b.sets || (symmetric && s < t && row == column)) return;
  const T rounded = static_cast<T>(value);
  if (!isfinite(rounded)) *overflow = 1;
  out[(s - first) * b.sets + t] = rounded;
  // The same entry on the other side of the diagonal: of all rows, or of this tile.
  if (symmetric && (once || row == column) && t < first + rows) out[(t - first) * b.sets + s] = rounded;
}

template <class T, Form form>
void launch(const KernelSide& a, const KernelSide& b, bool symmetric, Index first, Index rows, T* out,
            int* overflow) {
  const auto tiles = [](Index sets) { return static_cast<unsigned>((sets + kTile - 1) / kTile); };
  const bool once = symmetric && first == 0 && rows == a.sets;
  pair_kernel<T, form><<<dim3(tiles(b.sets), tiles(rows)), dim3(kTile, kTile), 0, device().stream>>>(
      view(a), view(b), symmetric, once, first, rows, static_cast<int>(a.max_keys),
      static_cast<int>(b.max_keys), out, overflow);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void closed_form(const KernelSide& a, const KernelSide& b, bool symmetric, Form form, Index first, Index rows,
                 T* out, int* overflow) {
  switch (form) {
    case Form::arc_cosine:
      return launch<T, Form::arc_cosine>(a, b, symmetric, first, rows, out, overflow);
    case Form::relu:
      return launch<T, Form::relu>(a, b, symmetric, first, rows, out, overflow);
    case Form::step:
      return launch<T, Form::step>(a, b, symmetric, first, rows, out, overflow);
    case Form::exponential:
      return launch<T, Form::exponential>(a, b, symmetric, first, rows, out, overflow);
    case Form::constant_scores:
      return launch<T, Form::constant_scores>(a, b, symmetric, first, rows, out, overflow);
  }
}

template void closed_form(const KernelSide&, const KernelSide&, bool, Form, Index, Index, float*, int*);
template void closed_form(const KernelSide&, const KernelSide&, bool, Form, Index, Index, double*, int*);

}  // namespace headlens::cuda
