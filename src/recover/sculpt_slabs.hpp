// What agreement says about every Theta_i at once.
//
// If all heads give row a the weights lambda, then for tokens b and c
//   <Theta_i, z> = log(lambda_b / lambda_c),   z = x_a (x_b - x_c)^T,   for every head i:
// a slab that contains the affine hull of the Theta_i. c is the token of largest weight. The error of a
// logarithm is 1 / lambda_b times that of lambda_b, and so slabs carry the weight lambda_b. A row that is
// nearly one-hot at c gives half-spaces <Theta_i, z> <= log((1 - 0.95) / 0.95).
#pragma once

#include <vector>

#include "recover/sculpt_agreement.hpp"

namespace headlens {

// sqrt(weight) (<Theta, z> - offset) is small (a slab), or at most about 0 (a half-space).
struct Cut {
  Index row = 0, b = 0, c = 0;  // tokens b and c of the example of this row
  double offset = 0;
  double weight = 1;
};

struct Cuts {
  MatrixView<const double> x;  // (n k, d)
  Index tokens = 0;
  std::vector<Cut> slabs, half_spaces;
  double tolerance = 0;  // of the agreement behind them

  Index dim() const { return x.cols; }
  Index unknowns() const { return x.cols * x.cols; }
};

Cuts cuts_from(const Split& split, const Agreement& agreement, const AcceptedRows& accepted);

// Row r = sqrt(weight) vec(z) of cut first + r.
void write_normals(const Cuts& cuts, const std::vector<Cut>& which, Index first, MatrixView<double> normals);

}  // namespace headlens
