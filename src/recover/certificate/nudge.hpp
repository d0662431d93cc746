// Attempts to break an answer before it is certified.
#pragma once

#include "recover/candidate.hpp"

namespace headlens {

struct Challenge {
  bool agrees = false;           // an independent start ended at the same heads
  bool more_heads_help = false;  // twice the heads explain the held-out examples better: the count is wrong
  bool too_few_to_ask = false;   // for more heads there are fewer equations than unknowns ask for
  bool leaves_noise = false;     // the residual has no structure (whiteness.hpp)
  bool bars_tell = false;        // the 95% bars of all heads are smaller than the heads
  bool returns = false;          // nudged by 1e-3, the heads come back: no direction is flat
};

// Nudges every Theta by 1e-3 of its size and minimises again. Heads that the examples do not determine (a
// coordinate of X that never varies, equal heads) stay where the nudge has put them.
bool returns_after_nudge(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort);

// Relative distance of two candidates, over matched heads.
double distance(const Candidate& a, const Candidate& b);

}  // namespace headlens
