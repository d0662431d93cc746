// Tokens of covariance one: x' = x T with T = C^-1/2, C the second moment of the tokens. Descent takes equal
// steps in all directions and the preconditioner counts on tokens of covariance one, so both need this.
// Heads come back by Q = T Q', K = T K', V = T V'. Where tokens are white already nothing is done, so that
// signs stay signs.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

struct Whitening {
  bool plain = true;  // T = 1
  Matrix<double>
      turn;  // T (d, d), symmetric, zero outside the span of the tokens; (d, s) in coordinates of the span
  Matrix<double> train_x, held_x;
};

// Where the tokens do not span all directions, in s coordinates of their span: T (d, s), T^T C T = 1. Error
// if all tokens are zero.
Whitening whiten(const Split& split, int threads);
// Of tokens whose last coordinate is 1, which stays: x' = (x - mean) T with T^T C T = 1, C the covariance, in
// s coordinates of the span of x - mean. The turn is (d + 1, s + 1).
Whitening whiten_centred(const Split& with_ones, int threads);
// Largest over smallest eigenvalue of C; infinite where the tokens do not span all directions.
double second_moment_ratio(const Split& split, int threads);
Split in_white(const Whitening& whitening, const Split& split);  // views of the whitening
// The largest factor by which undoing grows a column: |D T| with D the units of the coordinates.
double stretch(const Whitening& whitening, const std::vector<double>& units);
// Logits of this size that heads have on white tokens: what rounding may change of labels, as a share of
// them, where these heads are written in the coordinates given. Sums of d products make a logit there, which
// are larger than on white tokens by (|x| |T| / |x'|)^2.
double rounding_outside(const Whitening& whitening, const Split& split, double logits);
Factors from_white(const Whitening& whitening, const Factors& factors);

}  // namespace headlens::recovery
