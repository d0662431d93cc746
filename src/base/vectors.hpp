// Vectors of one instruction set and what loops need of them. The including file, compiled for that set,
// defines HEADLENS_ISA (the namespace, so that the linker never mixes instruction sets) and
// HEADLENS_VECTOR_BYTES. Vectors are GCC/Clang vector extensions: the flags of the file choose the
// instructions.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <type_traits>
#include <utility>

#include "headlens/array.hpp"

namespace headlens::HEADLENS_ISA {

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float Vector __attribute__((vector_size(HEADLENS_VECTOR_BYTES)));
  typedef float Anywhere __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(4)));
  typedef std::int32_t Integers __attribute__((vector_size(HEADLENS_VECTOR_BYTES)));
};
template <>
struct Lanes<double> {
  typedef double Vector __attribute__((vector_size(HEADLENS_VECTOR_BYTES)));
  typedef double Anywhere __attribute__((vector_size(HEADLENS_VECTOR_BYTES), aligned(8)));
  typedef std::int64_t Integers __attribute__((vector_size(HEADLENS_VECTOR_BYTES)));
};
template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
constexpr int kWidth = HEADLENS_VECTOR_BYTES / static_cast<int>(sizeof(T));

template <class T>
inline Vector<T> load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <class T>
inline void store(T* to, Vector<T> v) {
  *reinterpret_cast<Vector<T>*>(to) = v;
}

// Nothing but the first `count` items, wherever they lie: the other lanes are zero, and are not written.
#if HEADLENS_VECTOR_BYTES == 64 && defined(__AVX512F__)
inline Vector<float> load_first(const float* from, Index count) {
  return (Vector<float>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
}
inline Vector<double> load_first(const double* from, Index count) {
  return (Vector<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1U << count) - 1), from);
}
inline void store_first(float* to, Vector<float> v, Index count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1), (__m512)v);
}
inline void store_first(double* to, Vector<double> v, Index count) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1U << count) - 1), (__m512d)v);
}
#elif HEADLENS_VECTOR_BYTES == 32 && defined(__AVX2__)
inline __m256i first_of_eight(Index count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_of_four(Index count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Vector<float> load_first(const float* from, Index count) {
  return (Vector<float>)_mm256_maskload_ps(from, first_of_eight(count));
}
inline Vector<double> load_first(const double* from, Index count) {
  return (Vector<double>)_mm256_maskload_pd(from, first_of_four(count));
}
inline void store_first(float* to, Vector<float> v, Index count) {
  _mm256_maskstore_ps(to, first_of_eight(count), (__m256)v);
}
inline void store_first(double* to, Vector<double> v, Index count) {
  _mm256_maskstore_pd(to, first_of_four(count), (__m256d)v);
}
#else
template <class T>
inline Vector<T> load_first(const T* from, Index count) {
  Vector<T> out{};
  for (int i = 0; i < kWidth<T>; ++i)
    if (i < count) out[i] = from[i];
  return out;
}
template <class T>
inline void store_first(T* to, Vector<T> v, Index count) {
  for (int i = 0; i < kWidth<T>; ++i)
    if (i < count) to[i] = v[i];
}
#endif
// The same where there may be more than a vector, of which the first is meant.
template <class T>
inline Vector<T> load_part(const T* from, Index count) {
  if (count >= kWidth<T>) return *reinterpret_cast<const typename Lanes<T>::Anywhere*>(from);
  return load_first(from, count);
}
template <class T>
inline void store_part(T* to, Vector<T> v, Index count) {
  if (count >= kWidth<T>)
    *reinterpret_cast<typename Lanes<T>::Anywhere*>(to) = v;
  else
    store_first(to, v, count);
}

// v in the first so many lanes, `rest` in the others.
template <class T, int... Lane>
inline Vector<T> first_lanes(Vector<T> v, Index count, T rest, std::integer_sequence<int, Lane...>) {
  constexpr typename Lanes<T>::Integers lanes{Lane...};
  using Integer = std::remove_cvref_t<decltype(lanes[0])>;
  return lanes < static_cast<Integer>(count) ? v : Vector<T>{} + rest;
}
template <class T>
inline Vector<T> first_lanes(Vector<T> v, Index count, T rest) {
  if (count >= kWidth<T>) return v;
  return first_lanes<T>(v, count, rest, std::make_integer_sequence<int, kWidth<T>>());
}
// 2^n from shifted = n + 1.5 * 2^(mantissa bits): n is in the low bits of the number.
inline Vector<float> power_of_two(Vector<float> shifted) {
  return (Vector<float>)(((Lanes<float>::Integers)shifted - 0x4B400000 + 127) << 23);
}
inline Vector<double> power_of_two(Vector<double> shifted) {
  return (Vector<double>)(((Lanes<double>::Integers)shifted - 0x4338000000000000LL + 1023) << 52);
}

// exp to a few ulp: x = n ln 2 + r with |r| <= ln(2)/2, Taylor series of exp(r) to below one ulp, scaled by
// 2^n. Results under the smallest normal number are flushed to zero, over the largest become infinite.
template <class T>
inline Vector<T> exponential(Vector<T> x) {
  constexpr bool single = sizeof(T) == 4;
  constexpr T low = single ? T(-87) : T(-708), high = single ? T(88) : T(709);
  constexpr T magic = single ? T(0x1.8p23) : T(0x1.8p52);
  constexpr T ln2_high = single ? T(0x1.62e4p-1) : T(0x1.62e42fefa38p-1);
  constexpr T ln2_low = single ? T(0x1.7f7d1cp-20) : T(0x1.ef35793c7673p-45);
  constexpr int terms = single ? 8 : 14;
  const Vector<T> zero{}, lows = zero + low, highs = zero + high;
  const Vector<T> inside = x < lows ? lows : (x > highs ? highs : x);
  const Vector<T> shifted = inside * T(1.4426950408889634074) + magic;
  const Vector<T> n = shifted - magic;
  const Vector<T> r = (inside - n * ln2_high) - n * ln2_low;
  Vector<T> sum = zero + T(1);
  for (int k = terms - 1; k >= 1; --k) sum = sum * (r * T(1.0 / k)) + T(1);
  const Vector<T> value = sum * power_of_two(shifted);
  const Vector<T> infinite = zero + static_cast<T>(__builtin_inf());
  return x < lows ? zero : (x > highs ? infinite : value);
}

// Every lane with the lane `Apart` from it, then those of half that distance: in the end all lanes hold the
// same.
template <class T, int Apart, int... Lane>
inline Vector<T> swapped(Vector<T> v, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(v, v, (Lane ^ Apart)...);
}
template <class T, class Join, int Apart = kWidth<T> / 2>
inline Vector<T> joined(Vector<T> v, Join&& join) {
  v = join(v, swapped<T, Apart>(v, std::make_integer_sequence<int, kWidth<T>>()));
  if constexpr (Apart > 1) return joined<T, Join, Apart / 2>(v, std::forward<Join>(join));
  return v;
}
template <class T>
inline Vector<T> sum_of_lanes(Vector<T> v) {
  return joined<T>(v, [](Vector<T> a, Vector<T> b) { return a + b; });
}
template <class T>
inline Vector<T> largest_of_lanes(Vector<T> v) {
  return joined<T>(v, [](Vector<T> a, Vector<T> b) { return a > b ? a : b; });
}

// Of two rows that lie `Apart` from each other, the items that a transpose exchanges: every second run of
// `Apart` items of the first with the runs before those of the second.
template <int Apart, class T, int... Lane>
inline void exchange(Vector<T>& one, Vector<T>& other, std::integer_sequence<int, Lane...>) {
  const Vector<T> a = one, b = other;
  one = __builtin_shufflevector(a, b, ((Lane & Apart) != 0 ? kWidth<T> + Lane - Apart : Lane)...);
  other = __builtin_shufflevector(a, b, ((Lane & Apart) != 0 ? kWidth<T> + Lane : Lane + Apart)...);
}
// A square of kWidth vectors is transposed in log2(kWidth) rounds of exchanges.
template <class T, int Apart = kWidth<T> / 2>
inline void transpose(Vector<T>* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i)
    if ((i & Apart) == 0)
      exchange<Apart, T>(rows[i], rows[i + Apart], std::make_integer_sequence<int, kWidth<T>>());
  if constexpr (Apart > 1) transpose<T, Apart / 2>(rows);
}

}  // namespace headlens::HEADLENS_ISA
