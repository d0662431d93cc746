// What no function of X can explain, and how far a layer is from what a function of X could.
//
// Labels are Y = f(X) + noise with f(X) = E[Y | X], whatever f is, and for any layer F
//
//   E |F - Y|^2 = E |F - f|^2 + E |noise|^2.
//
// Examples with the same X (every token the same, in the same order) differ by their noise alone, so the
// spread of their labels estimates E |noise|^2 without knowing f; noise is taken to be independent between
// examples and of the same size everywhere. What the held-out examples leave beyond it is the excess E |F -
// f|^2.
//
// The held-out examples must then have X of their own: a layer that was fitted to another label of the same X
// has seen f there.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// The examples with those of equal X side by side, in the order in which each X comes first.
Examples with_equal_inputs_together(const Examples& examples);

// Of such examples: the last eighth and as many more as share its first X, so that no X is in both parts.
// Examples of one X only are cut as always.
Split hold_out_whole_inputs(const Examples& examples);

struct NoiseFloor {
  Index repeats = 0;          // examples less distinct X: degrees of freedom
  double variance = 0;        // of one label, from them
  double variance_error = 0;  // its standard error: that of Gaussian noise, or the one that the groups show
};
NoiseFloor noise_floor(const Split& split);

// Everything relative to |Y| of the held-out examples, with a 95% interval from the spread over distinct X.
BestFitReport excess_error(const Split& split, const Candidate& candidate, int threads);

}  // namespace headlens::recovery
