// What may be said of the heads that were found.
#pragma once

#include "recover/certificate/nudge.hpp"
#include "recover/certificate/proof.hpp"
#include "recover/unit_scales.hpp"

namespace headlens::recovery {

// Equations per unknown: n k e / (m d (d + e)), which is n k / (2 m d) for e = d.
double examples_per_unknown(const Split& split, Index heads);

// Fewer equations than this per unknown and even a perfect solver cannot tell the heads.
inline constexpr double kFewestEquations = 1.5;

// And this many are plenty, even for logits of deviation 16: more examples only sharpen what these show.
inline constexpr double kEnoughEquations = 32;
// The first examples of the split, enough for this many heads; the split itself if it has hardly more.
Split first_examples(const Split& split, Index heads, double equations = kEnoughEquations);

// Do training and held-out error differ by no more than noise makes them? Least squares with p of N equations
// spent leaves (1 - p/N) of the noise on its own examples and (1 + p/N) of it on others: sqrt((c + 1) / (c -
// 1)) between the two errors, c equations per unknown. Twice that is more than noise.
bool generalises(const Split& split, const Candidate& candidate);

// See RecoveryStatus for the meaning of each outcome.
RecoveryStatus verdict(const Split& split, const Candidate& candidate, const Challenge& challenge,
                       const Proof& proof, bool expired);

// What was proved of every head, for the certificate.
void describe_proven(const Proof& proof, const Candidate& candidate, const Units& units,
                     Certificate& certificate);

// Heads with a relative bar of this size or more.
std::vector<Index> heads_beyond(const Certificate& certificate, double bar);

// Of labels with noise: conditioning, noise, and every head with its error bars; false where the heads cannot
// be evaluated.
bool describe_noisy(const Split& split, const Candidate& candidate, const Units& units, std::uint64_t seed,
                    Effort& effort, Certificate& certificate);

}  // namespace headlens::recovery
