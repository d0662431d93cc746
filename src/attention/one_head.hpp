// One head on the tokens of one example, from its queries, keys and values q, k (n, r), v (n, s):
//
//   attend:      L = q k^T,  P = softmax(L) over the tokens that are seen and zero elsewhere,  Phi = P v
//   derivative:  dL = dq k^T + q dk^T,  dP = P * (dL - <P, dL>),  dPhi = dP v + P dv
//   adjoint:     of G (n, s), T = G v^T,  C = P * (T - <P, T>),  dq = C k,  dk = C^T q,  dv = P^T G
//
// in 2, 4 and 4 products of 2 n^2 r or 2 n^2 s flops, and half of that with a causal mask: what no token sees
// is not computed. The products are too small for BLAS. Here a few rows of L, T or dL at a time stay in the
// first cache until they are P, C or dP. There is one instance per instruction set; sums depend on shapes
// alone.
#pragma once

#include <algorithm>

#include "base/cpu.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

// Which tokens of an example see which.
struct Sight {
  Index tokens = 0;     // n: rows of q, k, v and P
  Index length = 0;     // tokens from here on are padding, which sees nothing and is not seen
  bool causal = false;  // a token sees those up to itself

  // How many tokens any of the first so many see: these and no others.
  Index of_first(Index rows) const { return causal ? std::min(rows, length) : length; }
  Index of(Index row) const { return row < length ? of_first(row + 1) : 0; }
};

template <class T>
struct HeadImages {
  MatrixView<T> q, k, v;
};

template <class T>
struct OneHead {
  using In = HeadImages<const T>;
  // Items that the functions below need to work in, for q, k and v of up to so many columns.
  Index (*room)(Index tokens, Index columns);
  // p (n, n) and phi (n, s), whole.
  void (*attend)(Sight sight, const In& at, MatrixView<T> p, MatrixView<T> phi, T* work);
  void (*derivative)(Sight sight, const In& at, const In& along, MatrixView<const T> p, MatrixView<T> dphi,
                     T* work);
  // dq, and dk, dv plus `before` times what they were: heads that share keys and values add up.
  void (*adjoint)(Sight sight, const In& at, MatrixView<const T> p, MatrixView<const T> g,
                  const HeadImages<T>& back, T before, T* work);
};

template <class T>
OneHead<T> one_head(SimdLevel level = simd_level());

}  // namespace headlens
