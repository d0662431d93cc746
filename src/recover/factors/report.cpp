#include "recover/factors/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "headlens/options.hpp"
#include "recover/certificate/words_of_doubt.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/content.hpp"
#include "recover/factors/polish.hpp"

namespace headlens::recovery {
namespace {

void describe_heads(const Factors& factors, const std::vector<HeadBound>& bars, Certificate& certificate) {
  certificate.per_head.clear();
  for (Index i = 0; i < factors.heads() && !bars.empty(); ++i) {
    const OwnHead head = own_head(factors, i);
    const OwnHead whole = balanced({copy_of(head.q), copy_of(head.k), copy_of(head.v), copy_of(head.o)});
    double sum = 0, squares = 0;
    for (Index j = 0; j < whole.q.cols(); ++j) {
      double value = 0;
      for (Index q = 0; q < whole.q.rows(); ++q) value += whole.q(q, j) * whole.q(q, j);
      sum += value;
      squares += value * value;
    }
    const HeadBound& bar = bars[static_cast<std::size_t>(i)];
    HeadReport report;
    report.scale = theta_norm(head.view());
    report.effective_rank = squares > 0 ? sum * sum / squares : 0;
    report.w_norm = w_norm(head.view());
    report.theta_bar = bar.theta;
    report.w_bar = bar.w;
    report.theta_rank = head.q.cols();
    report.w_rank = head.v.cols();
    report.mean_pooling = head.q.cols() == 0;
    certificate.per_head.push_back(report);
  }
}

// Descent that has not come near the layer tells nothing of what its heads share.
bool shows_other_groups(const Outcome& o, const Certificate& c) {
  return !shares_as_asked(o.search, o.options) && c.status != RecoveryStatus::needs_more_examples &&
         (c.held_out_error < kNear || o.search.at_minimum);
}

// Why heads in factors were not found.
Words why_not_found(const Outcome& o, const Certificate& c) {
  const Factors& best = o.search.best;
  if (c.status == RecoveryStatus::stalled)
    return {
        fmt::format("The time limit came first; {} heads leave {:.1e} of the held-out labels so far.",
                    c.heads, c.held_out_error),
        message("Raise ", option("time-limit"), ", or give the number of heads with ", option("heads"), ".")};
  if (shows_other_groups(o, c))
    return {fmt::format("The heads do not share keys and values in {} groups.", *o.options.kv_groups),
            message("Leave out ", option("kv-groups"), ", or give another number of groups.")};
  if (c.held_out_error < kProof) return words_of_doubt(o.proof.doubt);
  if (c.status == RecoveryStatus::needs_more_examples)
    return {fmt::format(
                "Descent fits the training examples (error {:.1e}) but not the held-out ones ({:.1e}): the "
                "examples give {:.1f} equations per unknown of heads of rank {}, and descent needs 12 to 24.",
                best.train_error, best.held_out_error, equations_per_unknown(o.white, best.ranks),
                first_rank(o.white, o.options)),
            "Give more examples; where you can choose them, take 4 to 8 tokens per example."};
  if (o.noise.leaves_noise)
    return {o.noise.agrees ? "The labels are too noisy: errors of half the size of a head would not show."
                           : "Two starts explain the labels up to noise, with different heads.",
            "Give more examples, or labels with less noise."};
  return {
      fmt::format("Heads of rank {} leave {:.1e} of the held-out labels, and what is left is not noise.",
                  *std::max_element(best.ranks.logits.begin(), best.ranks.logits.end()), c.held_out_error),
      message("Raise ", option("max-heads"), " or ", option("rank"), " (", option("rank", "full"),
              " for heads of full rank), or give more examples.")};
}

void explain_search(const Outcome& o, Certificate& c) {
  const Words words = why_not_found(o, c);
  c.reason = words.reason;
  c.advice = words.advice;
  c.heads_in_doubt = o.proof.found_doubt() ? o.proof.heads : std::vector<Index>{};
}

}  // namespace

RecoveryStatus status_of(const FactorSearch& search, const Challenge& noise, const Proof& proof,
                         bool expired) {
  if (search.best.held_out_error < kProof) {
    if (proof.doubt == Doubt::none) return RecoveryStatus::recovered;
    if (proof.doubt == Doubt::few_distinct) return RecoveryStatus::needs_more_examples;
    return expired ? RecoveryStatus::stalled : RecoveryStatus::not_identified;
  }
  if (expired) return RecoveryStatus::stalled;
  if (noise.leaves_noise && noise.agrees && noise.returns && noise.bars_tell)
    return RecoveryStatus::approximate;
  return overfits(search) ? RecoveryStatus::needs_more_examples : RecoveryStatus::not_identified;
}

bool is_certified(RecoveryStatus status) {
  return status == RecoveryStatus::recovered || status == RecoveryStatus::approximate;
}

void describe(const Outcome& o, bool expired, Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  const Factors &best = o.search.best, &found = o.found;
  LayerVariant variant = o.options.variant();
  if (!shares_as_asked(o.search, o.options)) variant.kv_groups = 0;
  certificate.variant = variant;
  certificate.heads = layer_heads(found);
  certificate.train_error = best.train_error;
  certificate.held_out_error = best.held_out_error;
  certificate.examples_per_unknown = equations_per_unknown(o.split, found.ranks);
  if (o.proof.response > 0) certificate.smallest_singular_value = o.proof.response;
  const Factors shown = balanced(without_constant(found), 0, 0, o.threads);
  describe_heads(shown, o.bars, certificate);
  const bool dense_fits = found.dim() <= kLargestDenseTheta;
  if (variant.plain()) {
    recovery.best_factors = factored_layer(shown);
    recovery.best_factors->kv_groups = variant.kv_groups;
    if (dense_fits) recovery.best = multiply_out(*recovery.best_factors);
  } else {
    recovery.best = variant_layer(found, variant);
  }
  // The words for plain layers look at all tokens of all examples.
  const bool simple = variant.plain() && !o.options.kv_groups && o.split.train_lengths.empty();
  if (is_certified(certificate.status)) {
    recovery.factors = recovery.best_factors;
    recovery.layer = recovery.best;
  } else if (best.held_out_error < kProof && !expired && dense_fits && simple) {
    const AttentionLayer dense = multiply_out(factored_layer(best));
    const Candidate candidate{pack_theta(dense.theta), pack_w(dense.w), best.train_error,
                              best.held_out_error};
    explain({first_equations(o.white, best.ranks, 1), o.options, candidate, o.noise, o.proof}, certificate);
  } else {
    explain_search(o, certificate);
  }
}

}  // namespace headlens::recovery
