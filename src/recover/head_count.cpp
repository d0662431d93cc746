#include "recover/head_count.hpp"

#include <algorithm>
#include <utility>

#include "recover/certify.hpp"

namespace headlens {
namespace {

constexpr double kAgreement = 0.05;  // relative distance at which two starts have found the same noisy heads
constexpr double kHelps = 0.95;      // an error this much smaller is not chance
constexpr Index kDirectionsBeyond = 4;  // of the span, after the heads, so that a gap can be seen

Found run_starts(const Split& split, Index heads, const Starts& starts, int count, const LmOptions& lm,
                 Effort& effort) {
  Found found;
  for (int start = 0; start < count && !(start > 0 && effort.expired()); ++start) {
    ++effort.starts;
    Candidate next = solve_from(split, starts.theta(split, heads, start, effort), lm, "search", effort);
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
Found probe(const Split& split, Index heads, const Starts& starts, Effort& effort) {
  return run_starts(split, heads, starts, 1, {.max_steps = 60, .stall_steps = 8}, effort);
}

bool explains_better(const Candidate& more, const Candidate& fewer) {
  return more.held_out_error < kHelps * fewer.held_out_error;
}

}  // namespace

Matrix<double> Starts::theta(const Split& split, Index heads, int start, Effort& effort) const {
  return span.values.empty() ? random_start(split.train_x.cols, heads, options.seed, start)
                             : spectral_start(split, span, heads, options.seed, start, effort);
}

Starts make_starts(const Split& split, const RecoverOptions& options, Effort& effort) {
  if (options.start == RecoverStart::random) return {options, {}};
  if (split.tokens < 3) {
    effort.execution().note("two tokens have no moment that shows the heads: random starts instead");
    return {options, {}};
  }
  const Index directions = options.heads.value_or(options.max_heads) + kDirectionsBeyond;
  return {options, head_span(split, directions, options.seed, effort)};
}

Found search(const Split& split, Index heads, const Starts& starts, Effort& effort) {
  return run_starts(split, heads, starts, starts.options.starts, {}, effort);
}

Found search_head_count(const Split& split, const Starts& starts, Effort& effort, Certificate& certificate) {
  const Index most = starts.options.max_heads;
  const Index first = starts.span.values.empty() ? 1 : std::min(starts.span.count_heads(), most);
  Found best = search(split, first, starts, effort);
  certificate.trials.push_back({first, best.best.train_error, best.best.held_out_error});
  for (Index heads = 2 * first; best.best.held_out_error > kProof && !effort.expired(); heads *= 2) {
    best.challenge.more_heads_help = true;  // until shown otherwise
    if (heads > most || examples_per_unknown(split, heads) < kFewestEquations) break;
    // Where fewer heads agree on a noise floor already, more must first show that they help.
    Found found =
        best.challenge.agrees ? probe(split, heads, starts, effort) : search(split, heads, starts, effort);
    if (best.challenge.agrees && explains_better(found.best, best.best))
      found = search(split, heads, starts, effort);
    certificate.trials.push_back({heads, found.best.train_error, found.best.held_out_error});
    const bool helps = explains_better(found.best, best.best);
    best.challenge.more_heads_help = helps;
    if (helps)
      best = std::move(found);
    else if (heads > 2 * first)
      break;
  }
  return best;
}

bool more_heads_help(const Split& split, const Found& found, const Starts& starts, Effort& effort,
                     Certificate& certificate) {
  const Index heads = 2 * found.best.heads();
  if (examples_per_unknown(split, heads) < kFewestEquations) return false;  // cannot be asked
  const Found more = probe(split, heads, starts, effort);
  certificate.trials.push_back({heads, more.best.train_error, more.best.held_out_error});
  return explains_better(more.best, found.best);
}

}  // namespace headlens
