// examples -> split -> starts -> fewer heads -> certificate
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "attention/packing.hpp"
#include "base/memory.hpp"
#include "headlens/error.hpp"
#include "headlens/recover.hpp"
#include "recover/certify.hpp"
#include "recover/challenge.hpp"
#include "recover/reduce.hpp"
#include "recover/sculpt.hpp"
#include "recover/search.hpp"
#include "recover/whiteness.hpp"

namespace headlens {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kAgreement = 0.05;  // relative distance at which two starts have found the same noisy heads
constexpr double kHelps = 0.95;      // an error this much smaller is not chance

struct Found {
  Candidate best;
  Challenge challenge;
};

// Starts until the held-out error is a proof, or two starts agree on a noise floor.
Found search(const Split& split, Index heads, const RecoverOptions& options, Effort& effort,
             const LmOptions& lm = {}) {
  Found found;
  for (int start = 0; start < options.starts && !(start > 0 && effort.expired()); ++start) {
    ++effort.starts;
    Candidate next =
        solve_from(split, random_start(split.train_x.cols, heads, options.seed, start), lm, "search", effort);
    const bool first = start == 0;
    const bool agrees = !first && distance(next, found.best) < kAgreement;
    found.challenge.agrees = found.challenge.agrees || agrees;
    if (first || next.held_out_error < found.best.held_out_error) {
      // A much better start makes the agreement of worse ones worthless.
      if (!first && !agrees) found.challenge.agrees = false;
      found.best = std::move(next);
    }
    if (found.best.held_out_error < kProof || found.challenge.agrees) break;
  }
  return found;
}

// One short run, enough to see whether this many heads explain more. Surplus heads leave a flat valley in
// which a full run would wander.
Found probe(const Split& split, Index heads, RecoverOptions options, Effort& effort) {
  options.starts = 1;
  return search(split, heads, options, effort, {.max_steps = 60, .stall_steps = 8});
}

bool explains_better(const Candidate& more, const Candidate& fewer) {
  return more.held_out_error < kHelps * fewer.held_out_error;
}

// 1, 2, 4, .. heads until the held-out examples are explained, or more heads no longer help.
Found search_head_count(const Split& split, const RecoverOptions& options, Effort& effort,
                        Certificate& certificate) {
  Found best = search(split, 1, options, effort);
  certificate.trials.push_back({1, best.best.train_error, best.best.held_out_error});
  for (Index heads = 2; best.best.held_out_error > kProof && !effort.expired(); heads *= 2) {
    best.challenge.more_heads_help = true;  // until shown otherwise
    if (heads > options.max_heads || examples_per_unknown(split, heads) < kFewestEquations) break;
    // Where fewer heads agree on a noise floor already, more must first show that they help.
    Found found =
        best.challenge.agrees ? probe(split, heads, options, effort) : search(split, heads, options, effort);
    if (best.challenge.agrees && explains_better(found.best, best.best))
      found = search(split, heads, options, effort);
    certificate.trials.push_back({heads, found.best.train_error, found.best.held_out_error});
    const bool helps = explains_better(found.best, best.best);
    best.challenge.more_heads_help = helps;
    if (helps)
      best = std::move(found);
    else if (heads > 2)
      break;
  }
  return best;
}

// The paper's phases in place of the search. Its answer is challenged like any other.
Found search_by_sculpting(const Split& split, const RecoverOptions& options, Effort& effort,
                          Recovery& recovery) {
  MemoryBudget(effort.execution()).require(sculpt_bytes(split, options), "sculpting");
  Sculpture sculpture = sculpt(split, options, effort);
  recovery.certificate.sculpt = std::move(sculpture.report);
  recovery.sculpt_span = std::move(sculpture.span);
  return {std::move(sculpture.candidate), {}};
}

// For a given number of heads: would twice as many explain more?
bool more_heads_help(const Split& split, const Found& found, const RecoverOptions& options, Effort& effort,
                     Certificate& certificate) {
  const Index heads = 2 * found.best.heads();
  if (examples_per_unknown(split, heads) < kFewestEquations) return false;  // cannot be asked
  const Found more = probe(split, heads, options, effort);
  certificate.trials.push_back({heads, more.best.train_error, more.best.held_out_error});
  return explains_better(more.best, found.best);
}

double predicted_bytes(const Split& split, Index heads) {
  const double rows = static_cast<double>(split.train_x.rows), e = static_cast<double>(split.train_y.cols);
  const double features = static_cast<double>(heads * split.train_x.cols);
  // Two points (P, Phi, residual, factor), one scratch of Phi's size, CG's images.
  return 8 * (rows * (2 * static_cast<double>(heads * split.tokens) + 3 * features + 5 * e) +
              4 * features * features);
}

template <class Work>
auto timed(Certificate& certificate, const std::string& name, Work&& work) {
  const auto start = Clock::now();
  auto result = work();
  certificate.phases.push_back({name, std::chrono::duration<double>(Clock::now() - start).count()});
  return result;
}

}  // namespace

std::string name(RecoveryStatus status) {
  constexpr const char* names[] = {"recovered", "approximate", "needs_more_examples", "not_identified",
                                   "stalled"};
  return names[static_cast<int>(status)];
}

std::string name(RecoverMethod method) { return method == RecoverMethod::varpro ? "varpro" : "sculpt"; }

void RecoverOptions::validate() const {
  require(!heads || *heads >= 1, "heads: ", heads.value_or(0), " given, expected auto, or 1 or more");
  require(max_heads >= 1, "max-heads: ", max_heads, " given, expected 1 or more");
  require(starts >= 1, "starts: ", starts, " given, expected 1 or more");
  require(!time_limit_seconds || (*time_limit_seconds > 0 && std::isfinite(*time_limit_seconds)),
          "time-limit: ", time_limit_seconds.value_or(0), " given, expected seconds above 0");
}

Recovery recover(const Examples& examples, const RecoverOptions& options, const Execution& execution) {
  options.validate();
  const auto start = Clock::now();
  Recovery recovery;
  Certificate& certificate = recovery.certificate;
  const Split split = hold_out(examples);
  MemoryBudget(execution).require(predicted_bytes(split, options.heads.value_or(options.max_heads)),
                                  "the recovery");
  Effort effort(options, execution);

  Found found = timed(certificate, "search", [&] {
    if (options.method == RecoverMethod::sculpt) return search_by_sculpting(split, options, effort, recovery);
    return options.heads ? search(split, *options.heads, options, effort)
                         : search_head_count(split, options, effort, certificate);
  });
  const bool noisy = found.best.held_out_error > kProof;
  if (noisy && options.heads && found.challenge.agrees)
    found.challenge.more_heads_help = more_heads_help(split, found, options, effort, certificate);
  const bool plausible = !noisy || (found.challenge.agrees && !found.challenge.more_heads_help);
  if (plausible && (!options.heads || looks_degenerate(found.best)))
    found.best = timed(certificate, "reduce",
                       [&] { return reduce(split, std::move(found.best), noisy ? 0.02 : 0.0, effort); });
  if (plausible && noisy) {
    const Whiteness white = residual_whiteness(split, found.best, options.seed, effort.threads());
    found.challenge.leaves_noise = white.is_noise();
    certificate.residual_z = std::max(std::abs(white.between_tokens), white.with_functions);
  }
  if (plausible)
    found.challenge.returns = timed(
        certificate, "nudge", [&] { return returns_after_nudge(split, found.best, options.seed, effort); });

  certificate.status = verdict(split, found.best, found.challenge, effort.expired());
  certificate.heads = found.best.heads();
  certificate.train_error = found.best.train_error;
  certificate.held_out_error = found.best.held_out_error;
  certificate.trials.push_back({certificate.heads, certificate.train_error, certificate.held_out_error});
  certificate.examples = examples.count();
  certificate.held_out = split.held_x.rows / split.tokens;
  certificate.examples_per_unknown = examples_per_unknown(split, certificate.heads);
  certificate.starts = effort.starts;
  certificate.steps = effort.steps;
  certificate.inner_steps = effort.inner;
  const bool certified =
      certificate.status == RecoveryStatus::recovered || certificate.status == RecoveryStatus::approximate;
  if (certified) {
    recovery.layer = unpack_layer(found.best.theta, found.best.w);
    certificate.per_head = describe_heads(*recovery.layer);
  }
  certificate.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return recovery;
}

}  // namespace headlens
