// What agreement says about every Theta_i at once.
//
// If all heads give row a the weights lambda, then for tokens b and c
//   <Theta_i, z> = log(lambda_b / lambda_c),   z = x_a (x_b - x_c)^T,   for every head i:
// a slab that contains the affine hull of the Theta_i. c is the token of largest weight. Where the row misses
// agreement by the share delta = |Y_a - lambda^T X S| / |(x_b - x_c) S|, the logarithm may be wrong by
//   error = delta (1 / lambda_b + 1 / lambda_c),
// and cuts are ranked by that: a row with one head at 1 and one at 0.9 is close in lambda and far in logits.
// A row that is nearly one-hot at c (lambda_c of 0.95 or more) also gives half-spaces
//   <Theta_i, z> <= log(0.1 / 0.9):
// lambda_b is at most 0.05 there, and a single head may give b twice that. The row gives slabs as well, for
// every b whose weight is above 0.001.
//
// Inputs of signs repeat, and so do their cuts: equal z (or -z) are one cut, whose offset is the mean.
#pragma once

#include <vector>

#include "recover/sculpt/agreement.hpp"

namespace headlens::recovery::sculpting {

// sqrt(weight) (<Theta, z> - offset) is small (a slab), or at most 0 (a half-space).
struct Cut {
  Index row = 0, b = 0, c = 0;  // tokens b and c of the example of this row
  double offset = 0;
  double weight = 1;
  double error = 0;  // of the offset, in logits
  Index count = 1;   // of rows that gave this cut
};

struct Cuts {
  MatrixView<const double> x;  // (n k, d)
  Index tokens = 0;
  std::vector<Cut> slabs, half_spaces;
  double tolerance = 0;  // the median error of the slabs, in logits

  Index dim() const { return x.cols; }
  Index unknowns() const { return x.cols * x.cols; }
};

// The `count` distinct slabs of smallest error, in that order, and the half-spaces of all one-hot rows, the
// least one-hot first, 64 per unknown at most.
Cuts cuts_from(const Split& split, const Agreement& agreement, Index count);

// The best `count` slabs of these cuts, weighted tolerance^2 / (error^2 + tolerance^2), and all half-spaces.
Cuts best_of(const Cuts& cuts, Index count);

// Row r = sqrt(weight) vec(z) of cut first + r.
void write_normals(const Cuts& cuts, const std::vector<Cut>& which, Index first, MatrixView<double> normals);

}  // namespace headlens::recovery::sculpting
