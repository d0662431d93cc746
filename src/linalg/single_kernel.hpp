// The body of single.hpp, compiled once per instruction set. The including file defines HEADLENS_ISA,
// HEADLENS_VECTOR_BYTES and HEADLENS_ROWS (rows whose accumulators fit its registers).
#include "linalg/single.hpp"

namespace headlens::HEADLENS_ISA {

namespace {

typedef float Floats __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(4)));
typedef double Doubles __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(8)));
typedef float HalfFloats __attribute__((vector_size(HEADLENS_VECTOR_BYTES / 2), aligned(4)));
constexpr int kWidth = HEADLENS_VECTOR_BYTES / 4;
constexpr int kVectors = kSingleLanes / kWidth;
constexpr int kDoubles = HEADLENS_VECTOR_BYTES / 8;
constexpr int kLine = 16;  // floats
constexpr int kSums = 4;  // independent sums, which hide the latency of an addition

inline Doubles widen(const float* from) {
  return __builtin_convertvector(*reinterpret_cast<const HalfFloats*>(from), Doubles);
}
inline Doubles& at(double* to) { return *reinterpret_cast<Doubles*>(to); }
inline Doubles at(const double* from) { return *reinterpret_cast<const Doubles*>(from); }

inline void multiply_rows(Index steps, const float* lanes, const float* scalars, float* out,
                          Index out_stride) {
  Floats sum[HEADLENS_ROWS][kVectors] = {};
  // A Gram matrix is larger than the caches.
  for (int r = 0; r < HEADLENS_ROWS; ++r)
    for (int c = 0; c < kSingleLanes; c += kLine) __builtin_prefetch(out + r * out_stride + c, 1);
  for (Index k = 0; k < steps; ++k, lanes += kSingleLanes, scalars += kSingleLanes) {
    Floats lane[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) lane[v] = *reinterpret_cast<const Floats*>(lanes + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < HEADLENS_ROWS; ++r) {
      const float scalar = scalars[r];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] += lane[v] * scalar;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < HEADLENS_ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      *reinterpret_cast<Floats*>(out + r * out_stride + v * kWidth) += sum[r][v];
}

}  // namespace

void add_block(Index steps, const float* columns, const float* rows, float* out, Index out_stride) {
  static_assert(kSingleLanes % HEADLENS_ROWS == 0);
  for (int r = 0; r < kSingleLanes; r += HEADLENS_ROWS)
    multiply_rows(steps, columns, rows + r, out + r * out_stride, out_stride);
}

double dot(Index count, const float* a, const double* b) {
  Doubles sums[kSums] = {};
  Index j = 0;
  for (; j + kSums * kDoubles <= count; j += kSums * kDoubles)
    for (int s = 0; s < kSums; ++s) sums[s] += widen(a + j + s * kDoubles) * at(b + j + s * kDoubles);
  const Doubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double total = 0;
  for (int k = 0; k < kDoubles; ++k) total += all[k];
  for (; j < count; ++j) total += static_cast<double>(a[j]) * b[j];
  return total;
}

void add_rows(Index rows, Index cols, const float* a, Index stride, const double* scale, Index step,
              double* out) {
  Index j = 0;
  for (; j + kSums * kDoubles <= cols; j += kSums * kDoubles) {
    Doubles sums[kSums];
    for (int s = 0; s < kSums; ++s) sums[s] = at(out + j + s * kDoubles);
    for (Index i = 0; i < rows; ++i)
      for (int s = 0; s < kSums; ++s) sums[s] += widen(a + i * stride + j + s * kDoubles) * scale[i * step];
    for (int s = 0; s < kSums; ++s) at(out + j + s * kDoubles) = sums[s];
  }
  for (; j < cols; ++j)
    for (Index i = 0; i < rows; ++i) out[j] += static_cast<double>(a[i * stride + j]) * scale[i * step];
}

}  // namespace headlens::HEADLENS_ISA
