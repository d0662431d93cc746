// The feature map of random-feature attention, for one tile of sets.
//
//   a_j   = sum_i W_ij xt_0i                          project the query through the head
//   c_k   = sum_j a_j xt_kj                           score every key
//   phi_j = (1/N) sum_k relu(c_k) xt_kj               mix the keys       (softmax, exp: other weights)
//
// Heads lie across vector lanes, kLanes at a time, so every step is a fused multiply-add of lanes by one
// scalar of a token: no shuffles, no reductions. The trailing 1 of xt = [x; 1] is never stored. 2 M D (D + 2
// N) flops per set.
#pragma once

#include "base/cpu.hpp"
#include "headlens/model.hpp"

namespace headlens::cpu {

// Heads to a block. Features of a block are stored as (D, kLanes): column block * D * kLanes + j * kLanes +
// lane.
constexpr Index kLanes = 16;

constexpr Index kGroup = 12;  // sets projected together

// A tile of sets, without the trailing ones.
template <class T>
struct PackedSets {
  Index count = 0;
  Index dim = 0;
  const T* queries = nullptr;        // (count, dim)
  const T* keys = nullptr;           // (sum of keys, dim)
  const Index* key_begin = nullptr;  // (count + 1): keys of set s are rows key_begin[s] to key_begin[s + 1]
};

// One block of kLanes heads: weights (D, D, kLanes), [j][i][lane] = W_ij. `used` lanes hold heads, the others
// are zero.
template <class T>
struct HeadBlock {
  const T* weights = nullptr;
  Index used = kLanes;
};

// Writes phi of set s to out + s * stride. `scratch` holds rfa_scratch_items() items. Returns false if any
// feature is not finite.
template <class T>
using RfaFunction = bool (*)(const PackedSets<T>& sets, HeadBlock<T> heads, Score score, T* scratch, T* out,
                             Index stride);

// sums (count, outputs, kLanes) += phi values^T lane by lane: phi of set s is at phi + s * stride, `columns`
// of them (a multiple of kLanes), values of output c at values + c * value_stride; all aligned to 64 bytes.
// In double: features are rounded once, when they are computed, products with them are not rounded again.
// Every sum runs over the columns in order, so it does not depend on how sets are grouped or columns are cut.
template <class T>
using LaneProductFunction = void (*)(Index count, const T* phi, Index stride, Index columns, Index outputs,
                                     const double* values, Index value_stride, double* sums);

Index rfa_scratch_items(Index dim, Index max_keys);

template <class T>
RfaFunction<T> rfa_function(SimdLevel level);
template <class T>
LaneProductFunction<T> lane_product_function(SimdLevel level);

}  // namespace headlens::cpu
