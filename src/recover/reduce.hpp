// Fewer heads with the same held-out error. Surplus heads come out of the search with W = 0, or as copies of
// one another, which makes the problem degenerate and the solver slow: they are removed, not iterated on.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// Drops heads of |W| below 1e-3 of the largest, then, as long as the held-out error stays proven or does not
// grow by more than `slack` (relative), merges the two heads of closest Theta or drops the one of smallest W,
// and polishes.
Candidate reduce(const Split& split, Candidate candidate, double slack, Effort& effort);

// Two heads nearly equal, or one nearly absent: worth an attempt to reduce even where the number of heads was
// given.
bool looks_degenerate(const Candidate& candidate);

}  // namespace headlens::recovery
