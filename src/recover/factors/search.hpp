// From whitened examples to heads in factors: descend with surplus heads, merge, polish, reduce.
#pragma once

#include "recover/factors/descend.hpp"
#include "recover/factors/polish.hpp"

namespace headlens::recovery {

// What steps of Newton needed: equations per unknown, and iterations of conjugate gradients.
struct NewtonNeeds {
  double equations = kPolishEquations;
  int inner = PolishOptions{}.max_inner;
};

struct FactorSearch {
  Factors best;  // of Newton, or of descent where Newton was not tried
  DescentEnd end = DescentEnd::out_of_steps;
  double enough = kProof;  // held-out error below which no other start is made
  NewtonNeeds needed;
  bool at_minimum = false;  // Newton ended at a minimum that is not zero: noise, or the wrong model
};

// Starts are tried in turn, the later ones with twice the rank, until one explains the held-out examples.
// `found` holds the best so far at any moment, should the time limit end the search.
void search_factors(const Split& white, const RecoverOptions& options, Effort& effort,
                    Certificate& certificate, FactorSearch& found);

// Do the heads share keys and values in as many groups as asked for?
bool shares_as_asked(const FactorSearch& search, const RecoverOptions& options);
// Are there too few examples for these heads? Noise on q equations per unknown leaves (1 - 1/q) of the
// held-out error in training: less than half of it means fewer than two.
bool overfits(const FactorSearch& search);

// The rank of the factors of the first start: as given, or d / m.
Index first_rank(const Split& split, const RecoverOptions& options);
Index descent_heads(const RecoverOptions& options);

}  // namespace headlens::recovery
