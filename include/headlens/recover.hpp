// From labelled examples of an unknown multi-head attention layer to its heads, with a certificate.
//
// Variable projection with Levenberg-Marquardt from random starts. Without a given number of heads, 1, 2, 4,
// .. are tried until the held-out examples are explained; surplus heads are then merged or dropped one by
// one, each removal kept only if the held-out error stays. Every head of a recovered layer has a bound on its
// error; where there is none, the layer is not called recovered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/layer.hpp"
#include "headlens/parity.hpp"
#include "headlens/sculpt.hpp"

namespace headlens {

enum class RecoverStart {
  random,    // small and random
  spectral,  // in the span that a moment of the examples shows; needs three tokens and many examples
};
std::string name(RecoverStart start);

enum class RecoverMethod {
  varpro,  // variable projection from random starts
  sculpt,  // the paper's six phases, then the same polish
  // These are shown as they are, without a polish, and are no way to recover a layer:
  moments,   // a second and a third moment of the examples; four tokens or more
  gradient,  // Adam on all parameters, for a number of steps
  // These know that the layer is a parity (hardness.hpp), and nothing else of it:
  brute_force,     // every set of s hidden coordinates
  linear_algebra,  // equations over GF(2)
};
std::string name(RecoverMethod method);

enum class VariantChoice {
  given,      // mask, bias and rotary say what the layer is
  automatic,  // usual variants are tried, and the simplest that explains the labels is taken
};
bool knows_parities(RecoverMethod method);  // brute_force and linear_algebra
bool is_shown_alone(RecoverMethod method);  // moments and gradient

struct RecoverOptions {
  RecoverMethod method = RecoverMethod::varpro;
  SculptOptions sculpt;
  std::optional<Index> heads;  // empty: found from the data
  Index max_heads = 16;        // when they are
  std::string rank = "auto";   // of the heads' factors: auto, full (all entries of Theta) or a number
  // What is known of the layer beyond its heads (variant.hpp). A wrong variant does not explain the labels.
  VariantChoice choice = VariantChoice::given;
  Mask mask = Mask::none;
  bool bias = false;
  std::string rotary = "none";  // or as read_rotary() has it
  // Groups of heads that share keys and values; empty: every head has its own. A layer of more groups is not
  // recovered as one of fewer.
  std::optional<Index> kv_groups;
  int starts = 6;  // for each number of heads
  RecoverStart start = RecoverStart::random;
  int steps = 3000;       // of `gradient`, for each start
  bool best_fit = false;  // the best layer of `heads` heads for labels of any origin; never called recovered
  std::uint64_t seed = 0;
  std::optional<double> time_limit_seconds;  // ends with a status; never changes an answer that is reached

  LayerVariant variant() const;
  void validate() const;
};

enum class RecoveryStatus {
  recovered,    // held-out examples are predicted to 8 digits, and the heads are determined: among all
                // layers, or among parity layers for the methods that know the class
  approximate,  // a noise floor was reached, and independent starts agree on the heads
  needs_more_examples,  // fewer equations than the unknowns ask for
  not_identified,       // no number of heads explains the held-out examples
  stalled,              // out of time or of steps on the way
  best_fit,             // what best_fit asked for: no statement about where the labels come from
};
std::string name(RecoveryStatus status);

struct HeadCountTrial {
  Index heads = 0;
  double train_error = 1;  // |F - Y| / |Y|
  double held_out_error = 1;
};

// One of the variants that VariantChoice::automatic tried.
struct VariantTrial {
  LayerVariant variant;
  double held_out_error = 1;
};

struct HeadReport {
  double scale = 0;           // |Theta|_F: standard deviation of the logits on random signs
  double effective_rank = 0;  // (sum of singular values)^2 / sum of their squares, of Theta
  double w_norm = 0;
  // |error| / |true Theta| and |error| / |true W| stay below these: with probability 0.95 when approximate,
  // always when recovered.
  double theta_bar = 0, w_bar = 0;
  bool mean_pooling = false;  // Theta is zero within its error, and was set to zero: theta_bar is then 1
  std::optional<Index> theta_rank = {}, w_rank = {};  // where the head was found in factors
};

struct Phase {
  std::string name;
  double seconds = 0;
};

// One step of the solver.
struct TracePoint {
  std::string phase;
  Index heads = 0;
  double seconds = 0;  // since the call
  double train_error = 1;
  int step = 0;                          // of its run, from 0
  std::optional<double> held_out_error;  // where it was measured: `gradient`
};

// How far a best fit is from E[Y | X], the best that any function of X could do. All relative to |Y| on the
// held-out examples.
struct BestFitReport {
  Index repeats = 0;                   // examples whose X another example has, too
  std::optional<double> noise_floor;   // the spread of their labels; empty without any
  std::optional<double> excess_error;  // |F - E[Y | X]|: sqrt(held_out_error^2 - noise_floor^2)
  // A 95% interval for it; without a floor 0 and what the error itself may be. Empty for one held-out X.
  std::optional<double> excess_low, excess_high;
};

// A label that the layer does not explain, while it explains the others.
struct Outlier {
  Index example = 0, token = 0, output = 0;
  bool operator==(const Outlier&) const = default;
};

struct Certificate {
  RecoveryStatus status = RecoveryStatus::not_identified;
  LayerVariant variant;  // what was asked for or found: the heads are those of a layer of this kind
  std::vector<VariantTrial> variant_trials;
  std::optional<Index>
      span_dimension;  // of the tokens, where less than d: heads are determined on their span alone
  // Without a certified layer: why there is none, what to do next, the heads that are not determined, and the
  // directions (each of d entries) along which the tokens never vary.
  std::string reason;
  Text advice;
  std::vector<Index> heads_in_doubt;
  std::vector<std::vector<double>> unseen_directions;
  Index heads = 0;
  double train_error = 1;
  double held_out_error = 1;
  Index examples = 0, held_out = 0;
  Index missing_labels = 0;       // of those that the examples should have
  std::vector<Outlier> outliers;  // labels that were left out
  // c = n k / (2 m d) for e = d, n k e / (m r (3 d + e)) in factors of rank r: equations per unknown. Methods
  // that know the class: examples with the control on, per coordinate.
  double examples_per_unknown = 0;
  std::optional<double> residual_z;  // largest z-score of structure in the residual; empty where none is left
  std::optional<double> noise;       // standard deviation of the labels' noise, from the residual
  // Smallest singular value of the projected Jacobian, in units of |Y| / |Theta|: the share by which the
  // labels change when Theta moves by its own size where they see it least, and each head's part in that
  // direction.
  std::optional<double> smallest_singular_value;
  std::vector<double> weakest_shares;
  std::vector<HeadCountTrial> trials;  // the evidence for the number of heads
  std::vector<double> moment_values;   // and, with moments, singular values that fall after it
  std::vector<HeadReport> per_head;
  int starts = 0, steps = 0, inner_steps = 0;
  std::optional<SculptReport> sculpt;  // when that was the method
  std::optional<ParityReport> parity;  // of the methods that know the class
  std::optional<BestFitReport> best_fit;
  std::vector<Phase> phases;
  std::vector<TracePoint> trace;
  std::string backend;  // the machine that computed it
  std::uint64_t predicted_peak_bytes = 0;
  double seconds = 0;
};

// Tokens of more coordinates than this have layers in factors alone: Theta is not formed.
inline constexpr Index kLargestDenseTheta = 512;

struct Recovery {
  // Empty unless recovered, approximate or a best fit.
  std::optional<AttentionLayer> layer;   // and empty above kLargestDenseTheta
  std::optional<FactoredLayer> factors;  // where the heads were found in factors
  // Certified or not; empty where there was nothing to find.
  std::optional<AttentionLayer> best;
  std::optional<FactoredLayer> best_factors;
  Certificate certificate;
  std::optional<Array> sculpt_span;  // (m-1, d, d): estimated directions Theta_i - Theta_j, orthonormal

  bool has_layer() const { return layer || factors; }
};

// Over ranks all of them take the same examples. Heads in factors are looked for by all ranks together, and
// every rank gets the answer; everything else is done by rank 0, and the others get nothing.
[[nodiscard]] Recovery recover(const Examples& examples, const RecoverOptions& options,
                               const Execution& execution);

}  // namespace headlens
