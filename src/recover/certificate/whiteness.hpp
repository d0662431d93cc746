// Is what a fit leaves over noise, or structure that no such layer has?
//
// Noise that is independent from row to row is uncorrelated (a) between the tokens of one example and (b)
// with every function of X. Each correlation, divided by its standard error under that hypothesis, is about
// standard normal; the largest of the few thousand tried stays below 6 with a chance of error of about 1e-5.
#pragma once

#include <cmath>
#include <cstdint>

#include "recover/candidate.hpp"

namespace headlens::recovery {

struct Whiteness {
  double between_tokens = 0;  // z-score of (a)
  double with_functions = 0;  // largest |z| of (b), over random cubic and rectified functions of the tokens
  // A fit of p unknowns spends p of the residual's degrees of freedom, and where those of one example share
  // them, (a) moves by up to p / sqrt(number of pairs of tokens and outputs).
  double spent = 0;

  bool is_noise() const { return std::abs(between_tokens) < 6 + spent && with_functions < 6; }
};

Whiteness residual_whiteness(const Split& split, const Candidate& candidate, std::uint64_t seed, int threads);
Whiteness residual_whiteness(const Split& split, const Matrix<double>& residual, Index heads,
                             std::uint64_t seed);

}  // namespace headlens::recovery
