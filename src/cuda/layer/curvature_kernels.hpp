// Kernels of the preconditioner (factor_curvature.hpp).
#pragma once

#include "cuda/layer/factor_curvature.hpp"

namespace headlens::cuda {

// a (d, 2 a + b) to blocks (3 m, d, r) and back.
template <class T>
void to_blocks(const BlockShape& shape, const T* a, T* blocks);
template <class T>
void from_blocks(const BlockShape& shape, const T* blocks, T* a);

// blocks(i, j) /= mu + max(floor l r, l_i r_j), with the eigenvalues of the block, l = 1 for Q.
template <class T>
void divide_blocks(const BlockShape& shape, const float* left, const float* right, double floor, double mu,
                   T* blocks);

// Of sampled examples, for one head with the activations z (s k, 2 a + b), weights p (s k, m k) and
// g = v O O^T v^T (s, k, k): plain = sum_a B_a B_a^T and weighed, times |q_a|^2, both (s, k, k).
struct Sampled {
  Index examples, tokens, heads, head, parameter_columns;
  backend::HeadColumns columns;
};
// It holds three squares of the tokens of an example in the shared memory of a block.
inline std::size_t bend_bytes(Index tokens) {
  const auto k = static_cast<std::size_t>(tokens);
  return (3 * k * (k + 1) + 2 * k) * sizeof(float);
}
void sum_bends(const Sampled& sampled, const float* z, const float* p, const float* g, float* plain,
               float* weighed);

// along = (a - t) / (sizes_j + sizes_l) and minus = -along for every head, all (m, r, r): of the gauge.
void divide_gauge(Index heads, Index rank, const double* sizes, const double* t, double* along,
                  double* minus);

}  // namespace headlens::cuda
