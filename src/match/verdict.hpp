// From matched heads to a verdict.
#pragma once

#include "match/overlaps.hpp"

namespace headlens::matching {

// What is known of a set of matched heads.
struct Judgement {
  double p_value = 1;
  MatchNull null = MatchNull::heads_of_a_layer;
  Index closer = 0;  // matched pairs that overlap more than any pair of one layer
};
// `rivals` heads of B were there to choose from for each; `like` is a layer of their shape.
Judgement judge(const std::vector<MatchedHead>& heads, double rivals, const Within& within,
                const LayerHeads& like);

MatchedLayer summarise(const LayerHeads& a, const LayerHeads& b, const std::vector<MatchedHead>& heads,
                       const Judgement& judged);

struct Totals {
  Within within;
  double rivals = 0;  // per head, summed over the heads that were matched
};
// Fills in everything of a match that follows from its heads, layers and unmatched heads.
void conclude(const LayerHeads& like, const Totals& totals, Match& out);

}  // namespace headlens::matching
