// How far the kernel of M random heads of rfa is from that of infinitely many.
//
// K_M(x, x') = (1/M) sum_m <phi_m(x), phi_m(x')> has mean K and variance v(x, x') / M. The mean of v over
// pairs of sets of uniform unit tokens is
//
//   E[<phi(x), phi(x')>^2] - E[K^2] = E_W |C|_F^2 - sum_i lambda_i^2,    C = E_x[phi(x) phi(x)^T]  (D x D).
//
// Given the query, the head acts on a key through w = W^T xt_0 alone, so with relu = relu(<w, xt>)
//
//   C = E_(x_0)[A_w / N + (1 - 1/N) v_w v_w^T],    A_w = E_x[relu^2 xt xt^T],  v_w = E_x[relu xt],
//
// which are integrals over one coordinate of x; |C|^2 pairs two queries, and so two Gaussian vectors w and w'
// of correlation (1 + <x_0, x_0'>) / 2. Six Gauss rules: finer rules change the result by 1e-3 for d = 3
// with 64 keys, and by about 1e-4 or less for larger d.
#pragma once

#include "headlens/array.hpp"

namespace headlens {

double head_second_moment(Index dim, Index keys);  // E[<phi(x), phi(x')>^2] for one head

}  // namespace headlens
