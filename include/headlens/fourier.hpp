// Fourier coefficients of a layer's outputs on pairs of sign tokens.
//
// The first output row F(x, x') is a function on {+1,-1}^{2d}, variables 0 .. d-1 those of x, d .. 2d-1 those
// of x'; the second row is the same function of (x', x). Its coefficients are
//
//   f_S = E F(x, x') chi_S,   chi_S = product of the variables in S,   degree |S|
//
// Exactly, by a fast Walsh-Hadamard transform of all 2^{2d} outputs (2d 2^{2d} additions), where 2d <= 24;
// otherwise estimated from samples, with one interval for all coefficients together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/layer.hpp"

namespace headlens {

inline constexpr Index kMostEnumerated = 24;  // variables

struct FourierOptions {
  Index degree = 3;       // largest
  Index samples = 20000;  // where 2d is too large for all inputs
  std::uint64_t seed = 0;

  void validate() const;
};

struct Fourier {
  bool exact = true;
  Array subsets;  // (N, degree) int64, variables in increasing order, then -1; by degree, then lexicographic
  Array values;   // (N, e) float64
  // With samples: |estimate - coefficient| stays below these (one per output) for all N e at once, with
  // probability 0.95; by the central limit theorem and Bonferroni. Exact: 0.
  std::vector<double> half_widths;
};
Fourier fourier_coefficients(const AttentionLayer& layer, const FourierOptions& options,
                             const Execution& execution);

struct FourierLevel {
  Index degree = 0;
  Index count = 0;     // coefficients, over all outputs
  double largest = 0;  // of their sizes
  double weight = 0;   // sum of their squares
};
enum class FourierPart {
  everything,
  // F - E[F | x[0], x'[0]], what a hard layer hides: without the coefficients of the control alone, which are
  // those of {}, {0}, {d} and {0, d}.
  hidden,
};
// One entry per degree, from 0 on.
std::vector<FourierLevel> fourier_levels(const Fourier& fourier, Index dim, FourierPart part);

}  // namespace headlens
