// Products of float matrices that BLAS does not offer or does slowly, one instance per instruction set.
#pragma once

#include <cstdint>

#include "base/cpu.hpp"
#include "headlens/array.hpp"

namespace headlens::cpu {

inline constexpr int kSingleLanes = 32;  // columns, and rows, of a block of a Gram matrix

// kSingleLanes vectors v of some steps, rounded to v_k ~ unit * integer. The integers have 16 bits and are
// such that no sum of products of two vectors leaves 32 bits: each is at most kRoundedItem, their Euclidean
// norm at most kRoundedNorm and what rounding adds to it, sqrt(kRoundedSteps) / 2.
struct RoundedGroup {
  const std::int32_t* integers;  // ordered as add_block likes them
  const float* units;            // [vector]; not finite if a sum of squares is not
};
inline constexpr Index kRoundedSteps = 512;
inline constexpr float kRoundedItem = 32766, kRoundedNorm = 46320;

struct FloatProducts {
  Index group_items;  // of RoundedGroup::integers, aligned to 64 bytes, at most
  // Rounds vectors that lie side by side, one step per row: from[step * stride + vector].
  void (*round_group)(Index steps, const float* from, Index stride, std::int32_t* integers, float* units);
  // The block out[r][c] += sum_k rows[k][r] columns[k][c], r and c below kSingleLanes: exact sums, rounded
  // when they are added to out.
  void (*add_block)(Index steps, RoundedGroup columns, RoundedGroup rows, float* out, Index out_stride);
  // sum_j a_j b_j and out_j += sum_i a_ij scale_i, in double: a is rounded already, products are not.
  double (*dot)(Index count, const float* a, const double* b);
  void (*add_rows)(Index rows, Index cols, const float* a, Index stride, const double* scale, Index step,
                   double* out);
};
FloatProducts float_products(SimdLevel level, bool integer_tiles = has_integer_tiles());

}  // namespace headlens::cpu
