// What a search in factors came to, in the words of the certificate: status, layer, heads, reason and advice.
#pragma once

#include <vector>

#include "headlens/recover.hpp"
#include "recover/certificate/explain.hpp"
#include "recover/factors/search.hpp"

namespace headlens::recovery {

// All that a search in factors came to.
struct Outcome {
  const Split &split, &white;
  const Factors& found;  // the best of the search in the user's coordinates and labels
  const RecoverOptions& options;
  const FactorSearch& search;
  const Challenge& noise;
  const Proof& proof;
  const std::vector<HeadBound>& bars;
  int threads;
};

RecoveryStatus status_of(const FactorSearch& search, const Challenge& noise, const Proof& proof,
                         bool expired);
bool is_certified(RecoveryStatus status);

// The layer, and the certificate for the status that it has.
void describe(const Outcome& outcome, bool expired, Recovery& recovery);

}  // namespace headlens::recovery
