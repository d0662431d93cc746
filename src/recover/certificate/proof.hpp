// What makes an answer that predicts the held-out examples to 8 digits a proof: the last digit of the fit, a
// bound on the error of every head, and attempts to find another layer that fits as well.
#pragma once

#include <functional>

#include "recover/certificate/bounds.hpp"

namespace headlens::recovery {

// Why heads that predict every label are not determined all the same.
enum class Doubt {
  untested,  // nothing was asked: certifies nothing
  none,
  wide_bars,      // an error of more than 1% would hardly change a label
  another_layer,  // a nudge along the weakest direction ended at other heads that fit as well
  mirror,  // a head and its mirror image differ by a mean of the tokens, which is zero or other heads supply
  few_tokens,   // parts of heads may be exchanged for some tokens only, because the tokens do not tie them
  mean_unseen,  // a head that takes the plain mean would not show: in all examples the mean lacks a direction
  few_distinct,  // the held-out examples repeat the others, which are too few to be evidence
  structure,     // the residual is above rounding and is not noise: something is not explained yet
  out_of_time,
};

struct Proof {
  Doubt doubt = Doubt::untested;
  std::vector<Index> heads;         // that the doubt concerns
  std::vector<HeadBound> relative;  // of every head: |error| / |Theta| and |error| / |W| stay below these
  std::vector<bool> pools_mean;     // Theta is zero within its bound, and was set to it
  double response = 0;              // smallest singular value of P_perp J in units of |Y| / |Theta|
  std::vector<double> shares;       // of every head in its direction

  bool found_doubt() const { return doubt != Doubt::none && doubt != Doubt::untested; }
};

// More digits than the search asks for, without a factor: the search's ridge, small as it is, hides them.
Candidate last_digits(const Split& split, Candidate candidate, Effort& effort);

// The candidate to the last digit that rounding leaves, with more heads where one of them turns out to be two
// that are nearly parallel. Problems too large for a dense factor are left as they are.
Candidate sharpen(const Split& split, Candidate candidate, bool may_add_heads, std::uint64_t seed,
                  Effort& effort);

// prove() for problems too large for a dense factor: from draws, and from the lowest eigenvalues of the
// matrix J^T P_perp J.
Proof prove_large(const Split& split, const Candidate& candidate, const std::vector<double>& weights,
                  std::uint64_t seed, Effort& effort);

// Another layer with the same labels, of a kind that has a name.
struct Ambiguity {
  Doubt doubt = Doubt::none;
  std::vector<Index> heads;  // that the doubt concerns
};
struct AmbiguityTest {
  const Split &mirrored, &swapped;  // the examples on which mirror images and exchanged parts are looked for
  double label_error;
  const std::vector<HeadBound>& bounds;
};
Ambiguity find_ambiguity(const Split& split, const AmbiguityTest& test, const Candidate& candidate);

// The last two tests of an answer that is the only one of its kind: it explains every label, and comes back
// after a nudge.
Doubt last_doubt(bool explained, const std::function<bool()>& comes_back, const Effort& effort);

// Candidates of held-out error below kProof. weights: see bound_errors. May set the Theta of a head to zero.
Proof prove(const Split& split, Candidate& candidate, const std::vector<double>& weights, std::uint64_t seed,
            Effort& effort);

// |error| / |true size|, where |error| stays below `error` and the size that was found is `size`.
double relative_to_truth(double error, double size);
inline constexpr double kWidestBar = 1e-2;  // relative, of a head that is called recovered

}  // namespace headlens::recovery
