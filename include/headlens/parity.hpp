// What learners that know the class of hard layers report: parities of pairs of hidden bits (hardness.hpp).
//
// On c = x[0] x'[0] = -1 the label is a constant plus the product of b_j = x[j] x'[j] over a hidden set:
// brute force asks for the correlation with every set of s coordinates, C(d-1, s) statistical queries; linear
// algebra reads the set as a system of linear equations over GF(2).
#pragma once

#include <vector>

#include "headlens/array.hpp"

namespace headlens {

struct ParityReport {
  std::vector<Index> set;  // the best found, right or wrong
  double sharpness = 0;    // fitted to the labels
  // Labels that are integers to the last digit look the same for any larger sharpness.
  bool sharpness_determined = false;
  Index active_examples = 0;  // those with the control on, held-out ones included
  std::vector<double> steps;  // brute force, labels that are no parity: G(t), t = -size .. size
  double spare_bits = 0;      // active examples beyond the bits that name one candidate: 2^-spare is chance

  // brute force
  double candidates = 0, tried = 0;              // sets of the sizes asked for
  double correlation = 0, next_correlation = 0;  // of the best set and of the one after it

  // linear algebra
  Index equations = 0, rank = 0;  // of d unknowns: d - 1 coordinates and the constant
  Index violated = 0;             // equations that contradict the first `rank` independent ones
};

}  // namespace headlens
