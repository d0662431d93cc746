// How many decimal digits the scores keep of what differs between tokens.
//
// A token is a mean mu, which all share, and what is its own, of size sigma. A score xt_0^T W xt holds
// products of all parts, and the product of what is their own is smaller than the whole by
//
//   rho_0 rho,   rho^2 = 1 + |mu|^2 / sigma^2,
//
// of queries and keys, so the rounding eps of the score is eps rho_0 rho of that product. A neuron of mlp has
// one factor rho. A kernel is a product of two features and squares the factors. Subtracting mu from all
// tokens makes every factor 1.
#pragma once

#include "fit/problem.hpp"

namespace headlens::training {

// Looks at some thousand sets, and of their keys at about most_numbers coordinates.
double score_digits(const Problem& problem, Index most_numbers = Index{1} << 24);

// With fewer digits, rounding shows in the error of the fit. Two are enough for mlp and for kernels. For
// attention, what differs between tokens makes up 1 / (rho_0 rho) of the squares of centred features, and the
// smallest penalty of the grid, a share of 1e-9 (f32: 1e-5) of these squares, must lie below that: 7 digits
// (f32: 2.2).
double enough_digits(const Problem& problem);

// What a user can do about lost digits.
std::string lost_digits_note(const Problem& problem, double digits);

}  // namespace headlens::training
