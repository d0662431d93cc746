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

namespace headlens {

double score_digits(const Problem& problem);

// Fewer, and rounding shows in the error of the fit (docs/fitting.md).
inline constexpr double kFewDigits = 2;

// What to do about it.
std::string lost_digits_note(const Problem& problem, double digits);

}  // namespace headlens
