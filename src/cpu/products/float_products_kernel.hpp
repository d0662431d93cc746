// The body of float_products.hpp, compiled once per instruction set. The including file defines HEADLENS_ISA,
// HEADLENS_VECTOR_BYTES and HEADLENS_ROWS (rows whose accumulators fit its registers).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "cpu/products/float_products.hpp"

namespace headlens::cpu::HEADLENS_ISA {

namespace {

typedef float Floats __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(4)));
typedef std::int32_t Ints __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(4)));
typedef double Doubles __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(8)));
typedef float HalfFloats __attribute__((vector_size(HEADLENS_VECTOR_BYTES / 2), aligned(4)));
constexpr int kWidth = HEADLENS_VECTOR_BYTES / 4;
constexpr int kVectors = kSingleLanes / kWidth;
constexpr int kDoubles = HEADLENS_VECTOR_BYTES / 8;
constexpr int kLine = 16;  // floats
constexpr int kSums = 4;   // independent sums, which hide the latency of an addition

inline Doubles widen(const float* from) {
  return __builtin_convertvector(*reinterpret_cast<const HalfFloats*>(from), Doubles);
}
inline Floats floats_at(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline Doubles& at(double* to) { return *reinterpret_cast<Doubles*>(to); }
inline Doubles at(const double* from) { return *reinterpret_cast<const Doubles*>(from); }

// a_2k b_2k + a_2k+1 b_2k+1 of the halves of every item.
inline Ints pair_products(Ints a, Ints b) {
#if HEADLENS_VECTOR_BYTES == 64
  return reinterpret_cast<Ints>(
      _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif HEADLENS_VECTOR_BYTES == 32
  return reinterpret_cast<Ints>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Ints>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

inline void multiply_rows(Index steps, RoundedGroup columns, RoundedGroup rows, int first, float* out,
                          Index out_stride) {
  Ints sum[HEADLENS_ROWS][kVectors] = {};
  // A Gram matrix is larger than the caches.
  for (int r = 0; r < HEADLENS_ROWS; ++r)
    for (int c = 0; c < kSingleLanes; c += kLine) __builtin_prefetch(out + r * out_stride + c, 1);
  const std::int32_t* lanes = columns.integers;
  const std::int32_t* scalars = rows.integers + first;
  for (Index k = 0; k < steps; ++k, lanes += kSingleLanes, scalars += kSingleLanes) {
    Ints lane[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) lane[v] = *reinterpret_cast<const Ints*>(lanes + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < HEADLENS_ROWS; ++r) {
      const Ints scalar = Ints{} + scalars[r];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] += pair_products(lane[v], scalar);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < HEADLENS_ROWS; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      *reinterpret_cast<Floats*>(out + r * out_stride + v * kWidth) +=
          __builtin_convertvector(sum[r][v], Floats) *
          (floats_at(columns.units + v * kWidth) * rows.units[first + r]);
}

}  // namespace

// pairs[step / 2][vector]: the even step in the low half, the odd one in the high.
void round_group(Index steps, const float* from, Index stride, std::int32_t* pairs, float* units) {
  Floats squares[kVectors] = {}, largest[kVectors] = {}, per_unit[kVectors];
  for (Index k = 0; k < steps; ++k)
    for (int v = 0; v < kVectors; ++v) {
      const Floats x = floats_at(from + k * stride + v * kWidth), size = x < 0 ? -x : x;
      squares[v] += x * x;
      largest[v] = size > largest[v] ? size : largest[v];
    }
  for (int v = 0; v < kVectors; ++v)
    for (int i = 0; i < kWidth; ++i) {
      const float unit = std::max(std::sqrt(squares[v][i]) / kRoundedNorm, largest[v][i] / kRoundedItem);
      units[v * kWidth + i] = unit;
      per_unit[v][i] = unit > 0 ? 1 / unit : 0.0F;
    }
  // The last bits of 1.5 2^23 + x are those of x rounded to an integer.
  const auto rounded = [&](Index k, int v) {
    const Floats x = floats_at(from + k * stride + v * kWidth);
    return reinterpret_cast<Ints>(x * per_unit[v] + 0x1.8p23F);
  };
  for (Index k = 0; k < steps; k += 2)
    for (int v = 0; v < kVectors; ++v) {
      const Ints low = rounded(k, v), high = k + 1 < steps ? rounded(k + 1, v) : Ints{};
      *reinterpret_cast<Ints*>(pairs + k / 2 * kSingleLanes + v * kWidth) = (low & 0xFFFF) | (high << 16);
    }
}

void add_block(Index steps, RoundedGroup columns, RoundedGroup rows, float* out, Index out_stride) {
  static_assert(kSingleLanes % HEADLENS_ROWS == 0);
  for (int r = 0; r < kSingleLanes; r += HEADLENS_ROWS)
    multiply_rows((steps + 1) / 2, columns, rows, r, out + r * out_stride, out_stride);
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

}  // namespace headlens::cpu::HEADLENS_ISA
