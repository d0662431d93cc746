// The penalty path of a large problem, or its factor at a given penalty, in single precision.
//
// Choosing a penalty needs few digits; only the coefficients at the chosen one need them all. So the Gram
// matrix K or G is summed from rounded features (rounded_gram.hpp) and reduced to a band in float, and its
// inverse then preconditions conjugate gradients on the exact products, which win some digits a step:
//
//   |P^-1 (K + shift) - I| <= c eps_f32 |K| / shift + |N| / sqrt(shift),  N what rounding adds to Phi
//
// The leave-one-out error of example i is r_i / d_i (ridge_path.hpp): residuals r_i are cheap for all n
// examples, d_i costs a solve each, in the primal for all of them twice as much as the Gram matrix. So d_i is
// computed for a random set S of kLeftOut examples, and
//
//   sum_i (r_i / d_i)^2  ~  sum_i r_i^2  *  sum_S (r_i / d_i)^2 / sum_S r_i^2,
//
// which is exact if S is everything or the d_i are equal. They nearly are, and equally so at neighbouring
// penalties, so that what is compared errs less than either.
#pragma once

#include <optional>

#include "fit/ridge_path.hpp"
#include "linalg/band.hpp"

namespace headlens {

inline constexpr Index kSingleFrom = 1024;  // unknowns; smaller systems are solved in double outright
inline constexpr Index kLeftOut = 512;

struct SinglePath {
  double ridge = 0;
  std::vector<RidgeTrial> trials;  // from the largest penalty down to the smallest that float can tell from 0
  BandReduction<float> band;       // of K + c 1 1^T / n, or of G without padding
  std::vector<Index> unknowns;     // those of the design that the band is of: all, or all but padding

  // (K + shift)^-1 to a few digits.
  BlockOperator inverse(double shift, int threads) const;
};

// Nothing if float cannot settle the choice: squares that leave its range, or a best penalty at the edge of
// what it resolves.
template <class T>
std::optional<SinglePath> single_path(DesignMatrix<T>& design, bool dual, MatrixView<const double> y,
                                      const FitOptions& options, const Execution& execution);

// (K + shift)^-1 (dual) or (G + shift)^-1 to a few digits, for a shift that is given: by Cholesky. Nothing if
// float loses the shift.
template <class T>
BlockOperator single_inverse(DesignMatrix<T>& design, bool dual, double shift, MatrixView<const double> y);

// At most `most` different numbers below count, in order.
std::vector<Index> draw_examples(Index count, Index most, std::uint64_t seed);

}  // namespace headlens
