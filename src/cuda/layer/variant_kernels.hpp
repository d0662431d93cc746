// Kernels of what layers have beyond plain ones (backend/factors.hpp), and of labels that are missing
// (cpu/layer/readout.hpp has the equations).
#pragma once

#include "cuda/device.hpp"

namespace headlens::cuda {

// Zero in the direction (rows, cols): the last row from column `free` on, and the last column.
template <class T>
void pin_directions(Index rows, Index cols, Index free, T* direction);

// Pair j of part p of every row of z (rows, cols) is the entries
//   p rank + j step   and   p rank + j step + apart,
// which turn by the angle of token row % tokens: cosine and sine (tokens, pairs). sign -1: back.
struct TurnedPairs {
  Index tokens = 0, pairs = 0, parts = 0, rank = 0, step = 0, apart = 0;
};
template <class T>
void turn_pairs(const TurnedPairs& shape, const T* cosine, const T* sine, T sign, Index rows, Index cols,
                T* z);

// a = 0 where a label is not seen.
template <class T>
void hide_unseen(const float* seen, Index size, T* a);

// out (p, e): column j = cores[group_of[j]] times column j of c, cores (groups, p, p) symmetric.
template <class T>
void multiply_columns(const T* cores, const Index* group_of, const T* c, Index features, Index outputs,
                      T* out);

}  // namespace headlens::cuda
