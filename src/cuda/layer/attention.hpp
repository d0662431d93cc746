// Attention of every head in every example, between the rows of activations Z = X [Q | K | V] and the rows of
// Phi (cpu/layer/factor_map.hpp has the equations). P and C are (n k, m k) by rows: row a holds the weights
// of token a over the k tokens of its example, head after head: zero where a token is not seen, by a mask or
// because it is padding, and in rows of padding. Everything else follows from these zeros.
#pragma once

#include "backend/factors.hpp"
#include "cuda/device.hpp"

namespace headlens::cuda {

constexpr Index kMostTokens = 128;  // what the shared memory of a block holds in double

struct AttentionShape {
  Index rows = 0, tokens = 0, heads = 0;           // n k, k, m
  Index parameter_columns = 0, value_columns = 0;  // 2 a + b, b
  const backend::HeadColumns* columns = nullptr;   // (m), on the device
  bool causal = false;                             // token a sees tokens 0 .. a
  const Index* lengths = nullptr;  // (n), on the device: tokens that are no padding; null where all are
  Index shared = 1;                // so many heads, one after another, have the same columns of K and V
};

// P and Phi of Z.
template <class T>
void attend(const AttentionShape& shape, const T* z, T* p, T* phi);
// dPhi along dZ.
template <class T>
void attend_along(const AttentionShape& shape, const T* z, const T* p, const T* dz, T* dphi);
// back = sum over rows of <g, dPhi / dZ>; c: scratch of the size of P.
template <class T>
void attend_back(const AttentionShape& shape, const T* z, const T* p, const T* g, T* c, T* back);

}  // namespace headlens::cuda
