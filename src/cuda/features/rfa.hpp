// The feature map of random-feature attention on the device:
//
//   a_j   = sum_i W_ij xt_0i              project the query through the head
//   c_k   = sum_j a_j xt_kj               score every key
//   phi_j = (1/N) sum_k relu(c_k) xt_kj   mix the keys       (softmax, exp, step: other weights)
//
// A thread has a head or two: a head is a lane, and every step is a fused multiply-add with a number of a
// token that all lanes share. Scores stay in registers. Feature (m, j) is column j * stride + m, so that the
// lanes of a warp write next to each other. 2 M D (D + 2 N) flops per set.
#pragma once

#include "cuda/features/tokens.hpp"
#include "headlens/model.hpp"

namespace headlens::cuda {

template <class T>
struct Heads {
  Index count = 0;         // M
  Index stride = 0;        // M rounded up; heads beyond M are zeros
  DeviceArray<T> weights;  // (D, D, stride): W_ij of head m at [i][j][m]
};

// Sets whose keys are few and tokens short: everything in one kernel.
template <class T>
bool is_small(Index width, Index max_keys);
// phi of the sets [first, first + count) to out (count, D stride). Sets *overflow if a feature is not finite.
template <class T>
void small_attention(const Tokens<T>& tokens, Index first, Index count, const Heads<T>& heads, Score score,
                     T* out, int* overflow);

// Any sets: `projected` (count, D stride) holds all a_j. Keys are taken some at a time, with running sums.
template <class T>
void any_attention(const Tokens<T>& tokens, Index first, Index count, const T* projected,
                   const Heads<T>& heads, Score score, T* out, int* overflow);

// to (count, D): the queries of the sets [first, first + count).
template <class T>
void gather_queries(const Tokens<T>& tokens, Index first, Index count, T* to);

// In place, for mlp: relu of the first `used` columns of a (rows, columns), zeros beyond.
template <class T>
void rectify(T* a, Index rows, Index columns, Index used, int* overflow);

}  // namespace headlens::cuda
