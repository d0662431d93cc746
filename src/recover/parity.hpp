// Learners that know the class: labels of a parity layer -> hidden set -> layer.
//
// On examples with the control on, v = c (y_1 - y_2) / 2 = h G(t), G even and alternating about its middle.
#pragma once

#include <vector>

#include "recover/search.hpp"

namespace headlens {

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

// sum_{j in S} [b_j = -1] + constant = [v is on the far side of the middle], over GF(2).
struct ParitySolution {
  std::vector<Index> set;
  Index equations = 0, rank = 0, violated = 0;
};
ParitySolution solve_parity(const ActiveExamples& active, Effort& effort);

// The parity layer of this set that fits the labels best.
struct ParityFit {
  double sharpness = 0;
  bool sharpness_determined = false;
  std::vector<double> heights;  // h of every output
};
ParityFit fit_parity(const ActiveExamples& active, const std::vector<Index>& set);
// |h G(t) - v|^2, summed over these examples.
double squared_error(const ActiveExamples& active, const std::vector<Index>& set, const ParityFit& fit);

// The whole method: fills the certificate, and the layer if it is certified.
void learn_parity(const Split& split, const RecoverOptions& options, Effort& effort, Recovery& recovery);

}  // namespace headlens
