// Phase 5: the span of the differences Theta_i - Theta_j, which are the long directions of the body.
//
// Eigenvectors: the body knows them (body.hpp). Membership: only contains() is asked. From an inner
// point c (the least-squares or least-absolute solution; the point of smallest norm lies on the surface), the
// gauge g(u) = 1 / max{ t : c + t u in the body } is found by bisection; its gradient, by finite differences,
// is normal to the body where the ray leaves it. Long directions are those to which all normals are
// orthogonal: the smallest eigenvectors of A = sum of normal normal^T over random u. Rays of equal chance
// would meet the nearest faces again and again; so u is drawn with covariance A^-1 of the rounds before, and
// each round looks where no face has been met yet. 4 D rays of D + 1 gauges for D = d^2 unknowns; some 25
// queries a gauge. (Gradients from membership are an idea of Groetschel, Lovasz and Schrijver.)
#pragma once

#include "recover/sculpt/body.hpp"

namespace headlens::recovery::sculpting {

struct Span {
  LongDirections directions;  // heads - 1 of them
  Index heads = 1;
  double eigengap = 0;  // (last width in the span / next width)^2
};

// heads = 0: where the ratio of successive widths is largest, and one head if none exceeds kSmallestGap.
inline constexpr double kSmallestGap = 2.5;
Span find_span(Body& body, Index heads, Index max_heads, SpanForm form, std::uint64_t seed, Effort& effort);

// The membership form by itself; `inside` is a point well inside the body.
LongDirections directions_by_membership(const Body& body, const std::vector<double>& inside, Index count,
                                        std::uint64_t seed, Effort& effort);

}  // namespace headlens::recovery::sculpting
