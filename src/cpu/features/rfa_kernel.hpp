// The body of the feature map, compiled once per instruction set. The including file defines HEADLENS_ISA,
// HEADLENS_VECTOR_BYTES (base/vectors.hpp) and HEADLENS_ROWS (accumulator rows that fit its registers).
#include <algorithm>

#include "base/vectors.hpp"
#include "cpu/features/rfa.hpp"

namespace headlens::cpu::HEADLENS_ISA {

using namespace headlens::HEADLENS_ISA;

// Vectors that a scalar meets before the next one is loaded.
template <class T>
constexpr int kVectors = kWidth<T> * 2 <= kLanes ? 2 : 1;
template <class T>
constexpr int kRows = HEADLENS_ROWS / kVectors<T>;
// Rows when projecting queries: a divisor of kGroup, the sets that share each weight loaded.
template <class T>
constexpr int kQueryRows = kRows<T> >= kGroup ? kGroup : kGroup / 2;

// acc[r][v] = start[v] + sum_t lanes[t][v] * scalars[r * row_stride + t * step_stride], for `Rows` rows; then
// finish(r, v, acc). The order of the sum is fixed, so results do not depend on how sets are grouped.
template <class T, int Rows, class Finish>
inline void multiply_rows(const T* start, const T* lanes, Index steps, const T* scalars, Index row_stride,
                          Index step_stride, Finish&& finish) {
  constexpr int V = kVectors<T>;
  Vector<T> acc[Rows][V];
  for (int v = 0; v < V; ++v) {
    const Vector<T> first = start ? load(start + v * kWidth<T>) : Vector<T>{};
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) acc[r][v] = first;
  }
  for (Index t = 0; t < steps; ++t) {
    Vector<T> lane[V];
    for (int v = 0; v < V; ++v) lane[v] = load(lanes + t * kLanes + v * kWidth<T>);
    const T* column = scalars + t * step_stride;
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) {
      const T scalar = column[r * row_stride];
      for (int v = 0; v < V; ++v) acc[r][v] += lane[v] * scalar;
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < V; ++v) finish(r, v, acc[r][v]);
}

// All rows, kRows at a time; the rest with the one instance that fits. finish(row, v, acc).
template <class T, int Rows = kRows<T>, class Finish>
inline void multiply(Index rows, const T* start, const T* lanes, Index steps, const T* scalars,
                     Index row_stride, Index step_stride, Finish&& finish) {
  Index row = 0;
  for (; row + Rows <= rows; row += Rows)
    multiply_rows<T, Rows>(start, lanes, steps, scalars + row * row_stride, row_stride, step_stride,
                           [&](int r, int v, Vector<T> acc) { finish(row + r, v, acc); });
  if constexpr (Rows > 1) {
    if (row < rows)
      multiply<T, (Rows + 1) / 2>(rows - row, start, lanes, steps, scalars + row * row_stride, row_stride,
                                  step_stride,
                                  [&](Index r, int v, Vector<T> acc) { finish(row + r, v, acc); });
  }
}

// Turns scores (keys, kLanes) into weights; returns what the mixed keys are multiplied by, per lane, in
// `scale`.
template <class T>
inline void weigh(Score score, Index keys, T* scores, T* scale) {
  const T uniform = T(1) / static_cast<T>(keys);
  for (Index lane = 0; lane < kLanes; lane += kWidth<T>) {
    const Vector<T> zero{};
    Vector<T> factor = zero + uniform;
    if (score == Score::exp) {
      for (Index k = 0; k < keys; ++k)
        store(scores + k * kLanes + lane, exponential<T>(load(scores + k * kLanes + lane)));
    } else if (score == Score::softmax) {
      Vector<T> highest = load(scores + lane), sum = zero;
      for (Index k = 1; k < keys; ++k) {
        const Vector<T> c = load(scores + k * kLanes + lane);
        highest = c > highest ? c : highest;
      }
      for (Index k = 0; k < keys; ++k) {
        const Vector<T> e = exponential<T>(load(scores + k * kLanes + lane) - highest);
        store(scores + k * kLanes + lane, e);
        sum += e;
      }
      factor = (zero + T(1)) / sum;
    }
    store(scale + lane, factor);
  }
}

// Lanes beyond the last head hold exp(0), not 0: clear them, so that padding never counts.
template <class T>
inline void clear_unused(T* out, Index extended, Index used) {
  for (Index j = 0; j < extended; ++j)
    for (Index lane = used; lane < kLanes; ++lane) out[j * kLanes + lane] = T(0);
}

// Steps 2 and 3 for one set: its projected query (D, kLanes) against its keys.
template <class T>
inline Vector<T> attend(const T* projected, const T* keys, Index count, Index dim, Score score, T* scores,
                        T* out) {
  constexpr Index step = kVectors<T> * kWidth<T>;
  const Vector<T> zero{};
  for (Index lane = 0; lane < kLanes; lane += step)
    multiply<T>(count, projected + dim * kLanes + lane, projected + lane, dim, keys, dim, 1,
                [&](Index k, int v, Vector<T> c) {
                  if (score == Score::relu) c = c < zero ? zero : c;  // lets NaN through
                  if (score == Score::step)
                    c = c > zero ? zero + T(1) : (c <= zero ? zero : c);  // so does this
                  store(scores + k * kLanes + lane + v * kWidth<T>, c);
                });
  alignas(64) T scale[kLanes];
  weigh(score, count, scores, scale);
  Vector<T> poison{};  // stays zero while every feature is finite
  for (Index lane = 0; lane < kLanes; lane += step) {
    multiply<T>(dim, nullptr, scores + lane, count, keys, 1, dim, [&](Index j, int v, Vector<T> sum) {
      const Vector<T> phi = sum * load(scale + lane + v * kWidth<T>);
      poison += phi * T(0);
      store(out + j * kLanes + lane + v * kWidth<T>, phi);
    });
    for (Index v = lane; v < lane + step; v += kWidth<T>) {
      Vector<T> sum{};
      for (Index k = 0; k < count; ++k) sum += load(scores + k * kLanes + v);
      sum *= load(scale + v);
      poison += sum * T(0);
      store(out + dim * kLanes + v, sum);
    }
  }
  return poison;
}

template <class T>
bool rfa(const PackedSets<T>& sets, HeadBlock<T> heads, Score score, T* scratch, T* out, Index stride) {
  const Index dim = sets.dim, extended = dim + 1;
  T* projected = scratch;                            // (kGroup, D, kLanes)
  T* scores = scratch + kGroup * extended * kLanes;  // (keys, kLanes)
  Vector<T> poison{};
  for (Index first = 0; first < sets.count; first += kGroup) {
    const Index group = std::min(kGroup, sets.count - first);
    for (Index j = 0; j < extended; ++j)
      for (Index lane = 0; lane < kLanes; lane += kVectors<T> * kWidth<T>) {
        const T* w = heads.weights + j * extended * kLanes + lane;  // the last row meets the trailing 1
        multiply<T, kQueryRows<T>>(group, w + dim * kLanes, w, dim, sets.queries + first * dim, dim, 1,
                                   [&](Index s, int v, Vector<T> a) {
                                     store(projected + (s * extended + j) * kLanes + lane + v * kWidth<T>, a);
                                   });
      }
    for (Index s = 0; s < group; ++s) {
      const Index begin = sets.key_begin[first + s];
      T* phi = out + (first + s) * stride;
      poison += attend(projected + s * extended * kLanes, sets.keys + begin * dim,
                       sets.key_begin[first + s + 1] - begin, dim, score, scores, phi);
      if (score != Score::relu && heads.used < kLanes) clear_unused(phi, extended, heads.used);
    }
  }
  T check = 0;
  for (int i = 0; i < kWidth<T>; ++i) check += poison[i];
  return check == T(0);
}

inline Vector<double> load_as_double(const double* from) { return load(from); }
inline Vector<double> load_as_double(const float* from) {
  typedef float Narrow __attribute__((vector_size(HEADLENS_VECTOR_BYTES / 2)));
  return __builtin_convertvector(*reinterpret_cast<const Narrow*>(from), Vector<double>);
}

// One output of `Rows` sets, which share each value loaded.
template <class T, int Rows>
inline void multiply_lanes(const T* phi, Index stride, Index columns, const double* values, double* sums,
                           Index sum_stride) {
  constexpr int V = kLanes / kWidth<double>;
  Vector<double> acc[Rows][V];
#pragma GCC unroll 32
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < V; ++v) acc[r][v] = load(sums + r * sum_stride + v * kWidth<double>);
  for (Index j = 0; j < columns; j += kLanes)
    for (int v = 0; v < V; ++v) {
      const Vector<double> value = load(values + j + v * kWidth<double>);
#pragma GCC unroll 32
      for (int r = 0; r < Rows; ++r)
        acc[r][v] += load_as_double(phi + r * stride + j + v * kWidth<double>) * value;
    }
#pragma GCC unroll 32
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < V; ++v) store(sums + r * sum_stride + v * kWidth<double>, acc[r][v]);
}

template <class T>
void add_lane_products(Index count, const T* phi, Index stride, Index columns, Index outputs,
                       const double* values, Index value_stride, double* sums) {
  constexpr int rows = HEADLENS_VECTOR_BYTES / 16;  // 8 accumulators
  const Index sum_stride = outputs * kLanes;
  for (Index c = 0; c < outputs; ++c) {
    Index s = 0;
    for (; s + rows <= count; s += rows)
      multiply_lanes<T, rows>(phi + s * stride, stride, columns, values + c * value_stride,
                              sums + s * sum_stride + c * kLanes, sum_stride);
    for (; s < count; ++s)
      multiply_lanes<T, 1>(phi + s * stride, stride, columns, values + c * value_stride,
                           sums + s * sum_stride + c * kLanes, sum_stride);
  }
}

template void add_lane_products<float>(Index, const float*, Index, Index, Index, const double*, Index,
                                       double*);
template void add_lane_products<double>(Index, const double*, Index, Index, Index, const double*, Index,
                                        double*);
template bool rfa<float>(const PackedSets<float>&, HeadBlock<float>, Score, float*, float*, Index);
template bool rfa<double>(const PackedSets<double>&, HeadBlock<double>, Score, double*, double*, Index);

}  // namespace headlens::cpu::HEADLENS_ISA
