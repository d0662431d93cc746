// Kernels with a closed form, one thread per pair of sets: a block has 16 by 16 of them and walks over their
// keys, four by four; inner products of tokens come from shared memory and every moment stays in registers. A
// pair of sets costs N N' moments and 2 N N' D flops, in double.
#pragma once

#include "cuda/kernels/kernel_side.hpp"

namespace headlens::cuda {

// out (rows, b.sets), rows [first, first + rows) of K(a, b), as floats or doubles. `symmetric`: a and b are
// the same, every entry is computed as that of the pair (larger, smaller), and where all rows are asked for,
// once. Sets *overflow if an entry is not finite.
template <class T>
void closed_form(const KernelSide& a, const KernelSide& b, bool symmetric, Form form, Index first, Index rows,
                 T* out, int* overflow);

constexpr Index kPairTile = 16;  // `first` is a multiple of this

}  // namespace headlens::cuda
