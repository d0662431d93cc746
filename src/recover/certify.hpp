// What may be said of the heads that were found.
#pragma once

#include "recover/challenge.hpp"

namespace headlens {

// Equations per unknown: n k e / (m d (d + e)), which is n k / (2 m d) for e = d.
double examples_per_unknown(const Split& split, Index heads);

// Fewer equations than this per unknown and even a perfect solver cannot tell the heads.
inline constexpr double kFewestEquations = 1.5;

// See RecoveryStatus for the meaning of each outcome.
RecoveryStatus verdict(const Split& split, const Candidate& candidate, const Challenge& challenge,
                       bool expired);

// Conditioning, noise, and every head with its error bars.
void describe(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort,
              Certificate& certificate);

}  // namespace headlens
