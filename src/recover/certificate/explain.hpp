// A verdict in words: why there is no certified layer, and what to do next.
#pragma once

#include "recover/certificate/verdict.hpp"

namespace headlens::recovery {

struct Situation {
  const Split& split;
  const RecoverOptions& options;
  const Candidate& candidate;
  const Challenge& challenge;
  const Proof& proof;
};

// Fills reason, advice, heads_in_doubt and unseen_directions for the status that the certificate has.
void explain(const Situation& situation, Certificate& certificate);

}  // namespace headlens::recovery
