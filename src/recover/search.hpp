// Starts for a number of heads, and the number of heads itself.
#pragma once

#include "recover/certificate/nudge.hpp"
#include "recover/spectral.hpp"

namespace headlens::recovery {

// Where starts come from: the seed, and the span of the heads if that was asked for.
struct Starts {
  const RecoverOptions& options;
  HeadSpan span;

  Matrix<double> theta(const Split& split, Index heads, int start, Effort& effort) const;
};
Starts make_starts(const Split& split, const RecoverOptions& options, Effort& effort);

struct Found {
  Candidate best;
  Challenge challenge;

  bool settled() const { return best.held_out_error < kProof || challenge.agrees; }
};

// Starts until the held-out error is a proof, or two starts agree on a noise floor.
Found search(const Split& split, Index heads, const Starts& starts, Effort& effort);

// All starts, each to its minimum, and the one of lowest training error: for labels that no layer need
// explain, where the held-out examples are to measure the answer and not to choose it.
Candidate search_best_fit(const Split& split, Index heads, const Starts& starts, Effort& effort);

// 1, 2, 4, .. heads (with a span: from the number that its gap shows) until the held-out examples are
// explained, or more heads no longer help.
Found search_head_count(const Split& split, const Starts& starts, Effort& effort, Certificate& certificate);

// Starts until one ends at the heads that were found in another way, or explains more than they do.
void seek_agreement(const Split& split, const Starts& starts, Effort& effort, Found& found);

// Memory of a search for so many heads, but for the factors of small problems.
double search_bytes(const Split& split, Index heads);

inline constexpr const char* kDoubling = "the test whether more heads would help";
// For a given number of heads: would twice as many explain more?
bool more_heads_help(const Split& split, const Found& found, const Starts& starts, Effort& effort,
                     Certificate& certificate);

}  // namespace headlens::recovery
