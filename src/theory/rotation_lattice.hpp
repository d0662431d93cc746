// Functions of two unit tokens (x_0, x) in R^d under joint rotations.
//
// Products of harmonics of degrees (a, b) split into irreducible representations of the rotations, those of
// Young diagrams with two rows l1 >= l2, each once:
//
//   H_a x H_b = sum of (l1, l2)  with  l1 + l2 <= a + b, of the same parity, |a - b| <= l1 - l2, l2 <= min(a,
//   b).
//
// So the functions of type (l1, l2) are d(l1, l2) copies of a space with one basis function e_ab for every
// such point (a, b) of a lattice. Whatever commutes with rotations is a matrix on it. Multiplication by t =
// <x_0, x> joins (a, b) to (a +- 1, b +- 1); with nu = d/2 - 1, s = l1 + l2, m = l1 - l2, its squared entries
// are
//
//   (a + b + 2 - s)(a + b + 4 nu + s)(a + b + 2 nu + 2 + m)(a + b + 2 nu - m)
//     / (64 (a + nu)(a + nu + 1)(b + nu)(b + nu + 1))                                 to (a + 1, b + 1)
//   (m + a - b)(m - a + b + 2)(s + 2 nu + a - b - 2)(s + 2 nu - a + b)
//     / (64 (a + nu)(a + nu - 1)(b + nu)(b + nu + 1))                                 to (a - 1, b + 1).
//
// (0, 0) are the functions of t, with the recurrence of Gegenbauer polynomials; (1, 0) are <beta, x> g(t) +
// <beta, x_0> g'(t). The formula was found from these and (l, 0), and holds on all types that the tests try.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

struct RotationType {
  Index first = 0, second = 0;  // l1 >= l2 >= 0
};

// log d(l1, l2), in dimension 3 or more; -infinity where there is no such representation.
double log_dimension(Index dim, RotationType type);

struct LatticePoint {
  Index query_degree = 0, key_degree = 0;
};

// Points with degrees up to these, by increasing sum.
std::vector<LatticePoint> lattice(RotationType type, Index most_query, Index most_key);

// Multiplication by <x_0, x>, cut off at the points given.
Matrix<double> product_matrix(Index dim, RotationType type, const std::vector<LatticePoint>& points);

}  // namespace headlens
