// Phase 6: a net over tuples of heads in the affine hull, Theta_i = proxy + sum_j c_ij v_j.
//
// A grid of points in the (m-1)-dimensional span, finer near the proxy; every m-subset of it is a tuple, up
// to kMostTuples (random ones where there are more). Features P(Theta) X and their products are computed once
// a point; a tuple then costs one (m d) system for W, and its held-out error is a quadratic form. The best
// tuple is improved by moving one head at a time along one direction at a time, with steps that halve. With
// many heads the net is coarse, and a polish from its best tuple may end in a local minimum: the next best
// are kept.
#pragma once

#include "recover/sculpt/span.hpp"

namespace headlens::recovery::sculpting {

inline constexpr Index kMostTuples = 50000;

struct NetResult {
  Matrix<double> theta;                   // (d, m d)
  std::vector<Matrix<double>> next_best;  // as the grid has them, best first
  double held_out_error = 1;
  Index size = 0;  // tuples tried
};

NetResult search_net(const Split& split, const std::vector<double>& proxy, const Span& span,
                     const RecoverOptions& options, Effort& effort);

}  // namespace headlens::recovery::sculpting
