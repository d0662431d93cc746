// Learners that know the class: labels of a parity layer -> hidden set -> layer. Brute force also knows step
// functions of a hidden sum, of which parities and roundings are two.
//
// On examples with the control on, v = c (y_1 - y_2) / 2 = h G(t), G even and alternating about its middle.
#pragma once

#include <vector>

#include "recover/candidate.hpp"

namespace headlens::recovery {

// The examples with the control on, of one part of the split.
struct ActiveExamples {
  Matrix<double> bits;              // (d, n): b_j = x[j] x'[j], +1 or -1; row 0 is the control's and unused
  Matrix<signed char> differences;  // (d, n): (x[j] - x'[j]) / 2
  Matrix<double> labels;            // (e, n): v of every output

  Index count() const { return bits.cols(); }
};
ActiveExamples active_examples(MatrixView<const double> x, MatrixView<const double> y);

// The output of largest size: the one that learners look at.
Index strongest_output(const ActiveExamples& active);

// All sets of `size` of the coordinates 1 .. d-1, by their correlation with the strongest output.
struct BestSet {
  std::vector<Index> set;
  double correlation = 0, next_correlation = 0;
  double tried = 0, candidates = 0;  // fewer tried: out of time
};
BestSet search_sets(const ActiveExamples& active, Index size, Effort& effort);
// The same, by the correlation with the best function of the hidden sum t = sum_{j in S} c (x[j] - x'[j])
// / 2. Sums are held in a byte each: no larger sets are tried.
inline constexpr Index kMostSummed = 63;
BestSet search_sums(const ActiveExamples& active, Index size, Effort& effort);
// (d, n): c (x[j] - x'[j]) / 2
Matrix<signed char> hidden_signs(const ActiveExamples& active);

// sum_{j in S} [b_j = -1] + constant = [v is on the far side of the middle], over GF(2).
struct ParitySolution {
  std::vector<Index> set;
  Index equations = 0, rank = 0, violated = 0;
};
ParitySolution solve_parity(const ActiveExamples& active, Effort& effort);

inline constexpr double kMostSharpness = 80;  // exp(-40) is below rounding

// The parity layer of this set that fits the labels best.
struct ParityFit {
  double sharpness = 0;
  bool sharpness_determined = false;
  std::vector<double> heights;  // h of every output
};
ParityFit fit_parity(const ActiveExamples& active, const std::vector<Index>& set);
// |h G(t) - v|^2, summed over these examples.
double squared_error(const ActiveExamples& active, const std::vector<Index>& set, const ParityFit& fit);

// G(t) of a hidden sum, as the labels have it: v = G(t) on active examples, y = x[0] rest on the others.
struct StepFit {
  Matrix<double> values;  // (e, 2 size + 1): the mean label of t = -size .. size, less the middle of its ends
  std::vector<double> rest;  // G(size)
  Index unseen = 0;          // values of t that no example has, so that G is not known there

  double largest() const;  // |G|
};
// `x` and `y` are the examples that `active` was made from: where t never was at an end, the labels of those
// with the control off say what G is there.
StepFit fit_steps(const ActiveExamples& active, const std::vector<Index>& set, MatrixView<const double> x,
                  MatrixView<const double> y);
double squared_error(const ActiveExamples& active, const std::vector<Index>& set, const StepFit& fit);
// The layer of these steps, with a head for every jump.
Candidate step_candidate(Index dim, const std::vector<Index>& set, const StepFit& fit);

// The whole method: fills the certificate, and the layer if it is certified.
void learn_parity(const Split& split, const RecoverOptions& options, Effort& effort, Recovery& recovery);

}  // namespace headlens::recovery
