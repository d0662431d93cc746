#include "recover/search.hpp"

#include <algorithm>
#include <utility>

#include "linalg/vector_space.hpp"
#include "recover/certificate/proof.hpp"
#include "recover/certificate/verdict.hpp"
#include "recover/certificate/whiteness.hpp"
#include "recover/reduce.hpp"

namespace headlens::recovery {
namespace {

constexpr double kAgreement = 0.05;   // relative distance at which two starts have found the same noisy heads
constexpr double kHelps = 0.95;       // an error this much smaller is not chance
constexpr double kUnexplained = 0.9;  // of the labels: more than this left is no noise floor
constexpr double kSlack = 0.02;       // by which the error of noisy heads may rise when one is dropped
constexpr Index kDoubleBelow = 8;     // heads: beyond, surplus ones cost more than another round
constexpr Index kDirectionsBeyond = 4;  // of the span, after the heads, so that a gap can be seen

constexpr int kFewStarts =
    2;  // for a number of heads that may be too small: surplus heads help more than starts
constexpr int kThinStarts = 2;  // later starts take all examples, in case the first ones are not typical

// Surplus heads leave a flat valley, in which the last digits take very long and say nothing. Where the heads
// are to be counted, a start therefore ends early, sheds what is surplus, and goes on from there.
Candidate shed_and_finish(const Split& split, Candidate found, Effort& effort) {
  if (found.held_out_error > kNear) return found;
  if (looks_degenerate(found)) found = reduce(split, std::move(found), 0, effort);
  return solve_from(split, std::move(found.theta), {.ridge = 1e-14, .mu = 1e-5, .stall_steps = 12}, "search",
                    effort);
}

Candidate solve_start(const Split& split, Index heads, const Starts& starts, int start, LmOptions lm,
                      Effort& effort) {
  const bool counting = !starts.options.heads;
  const Split thin = start < kThinStarts ? first_examples(split, heads) : split;
  if (counting) {
    lm.tolerance = kNear * kNear * 1e-6;
    lm.is_noise = [&](const backend::LayerProblem& problem, const backend::LayerPoint& point) {
      return residual_whiteness(thin, problem.residual(point), heads, starts.options.seed).is_noise();
    };
  }
  Candidate found = solve_from(thin, starts.theta(thin, heads, start, effort), lm, "search", effort);
  if (counting) found = shed_and_finish(thin, std::move(found), effort);
  if (thin.train_x.rows == split.train_x.rows) return found;
  return solve_from(split, std::move(found.theta),
                    {.ridge = 1e-14, .mu = 1e-5, .max_steps = lm.max_steps, .stall_steps = 8}, "search",
                    effort);
}

// The starts from `first` on, added to what earlier ones found.
void run_starts(const Split& split, Index heads, const Starts& starts, int first, int last,
                const LmOptions& lm, Effort& effort, Found& found) {
  for (int start = first; start < last && !(start > 0 && effort.expired()); ++start) {
    ++effort.starts;
    Candidate next = solve_start(split, heads, starts, start, lm, effort);
    const bool alone = found.best.theta.cols() == 0;
    const bool agrees = !alone && distance(next, found.best) < kAgreement;
    found.challenge.agrees = found.challenge.agrees || agrees;
    if (alone || next.held_out_error < found.best.held_out_error) {
      // A much better start makes the agreement of worse ones worthless.
      if (!alone && !agrees) found.challenge.agrees = false;
      found.best = std::move(next);
    }
    if (found.settled()) break;
  }
}

// One short run, enough to see whether this many heads explain more. Surplus heads leave a flat valley in
// which a full run would wander.
Found probe(const Split& split, Index heads, const Starts& starts, Effort& effort) {
  Found found;
  run_starts(split, heads, starts, 0, 1, {.max_steps = 60, .stall_steps = 8}, effort, found);
  return found;
}

bool leaves_noise(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort) {
  return candidate.held_out_error < kUnexplained &&
         residual_whiteness(split, candidate, seed, effort.threads()).is_noise();
}

bool explains_better(const Candidate& more, const Candidate& fewer) {
  return more.held_out_error < kHelps * fewer.held_out_error;
}

// At a noise floor with perhaps too many heads: as few as leave the held-out error where it is. That more do
// not help has then been seen. Independent starts with this many are to agree with them. False if none is
// surplus.
bool drop_surplus(const Split& split, const Starts& starts, Effort& effort, Found& best,
                  Certificate& certificate) {
  Candidate fewer = reduce(split, copy_of(best.best), kSlack, effort);
  if (fewer.heads() == best.best.heads()) return false;
  certificate.trials.push_back({fewer.heads(), fewer.train_error, fewer.held_out_error});
  best = {std::move(fewer), {}};
  run_starts(split, best.best.heads(), starts, 0, starts.options.starts, {}, effort, best);
  return true;
}

void record(const Candidate& c, Certificate& certificate) {
  certificate.trials.push_back({c.heads(), c.train_error, c.held_out_error});
}

int few_starts(const Starts& starts) { return std::min(kFewStarts, starts.options.starts); }

// A number of heads from few starts.
Found glance(const Split& split, Index heads, const Starts& starts, Effort& effort,
             Certificate& certificate) {
  Found found;
  run_starts(split, heads, starts, 0, few_starts(starts), {}, effort, found);
  record(found.best, certificate);
  // What is nearly explained may lack a faint head, or two that are nearly parallel: more heads from random
  // starts would wander in the valley that the missing ones leave.
  if (found.best.held_out_error < kNear && found.best.held_out_error > kProof) {
    found.best = sharpen(split, std::move(found.best), true, starts.options.seed, effort);
    record(found.best, certificate);
  }
  return found;
}

}  // namespace

Matrix<double> Starts::theta(const Split& split, Index heads, int start, Effort& effort) const {
  return span.values.empty() ? random_start(split.train_x.cols, heads, options.seed, start)
                             : spectral_start(split, span, heads, options.seed, start, effort);
}

Starts make_starts(const Split& split, const RecoverOptions& options, Effort& effort) {
  if (options.start == RecoverStart::random && options.method != RecoverMethod::moments) return {options, {}};
  if (split.tokens < 3) {
    effort.execution().note("two tokens have no moment that shows the heads: random starts instead");
    return {options, {}};
  }
  const Index directions = options.heads.value_or(options.max_heads) + kDirectionsBeyond;
  return {options, head_span(split, directions, options.seed, effort)};
}

Found search(const Split& split, Index heads, const Starts& starts, Effort& effort) {
  Found found;
  run_starts(split, heads, starts, 0, starts.options.starts, {}, effort, found);
  return found;
}

Candidate search_best_fit(const Split& split, Index heads, const Starts& starts, Effort& effort) {
  Candidate best;
  for (int start = 0; start < starts.options.starts && !(start > 0 && effort.expired()); ++start) {
    ++effort.starts;
    Candidate next = solve_start(split, heads, starts, start, {}, effort);
    if (start == 0 || next.train_error < best.train_error) best = std::move(next);
    if (best.train_error <= kProof) break;  // nothing is left to explain
  }
  if (effort.expired()) return best;
  const LmOptions tight{.ridge = 1e-14, .mu = 1e-6, .stall_steps = 8, .flat = kTight};
  Candidate end = solve_from(split, copy_of(best).theta, tight, "polish", effort);
  if (end.train_error < best.train_error) best = std::move(end);
  if (best.train_error > kNear) return best;
  return sharpen(split, std::move(best), false, starts.options.seed, effort);
}

Found search_head_count(const Split& split, const Starts& starts, Effort& effort, Certificate& certificate) {
  const Index most = starts.options.max_heads;
  const Index first = starts.span.values.empty() ? 1 : std::min(starts.span.count_heads(), most);
  Found best = glance(split, first, starts, effort, certificate);
  for (Index heads = first; best.best.held_out_error > kProof && heads < most && !effort.expired();) {
    heads = std::min(heads < kDoubleBelow ? 2 * heads : heads + heads / 2, most);
    best.challenge.more_heads_help = true;  // until shown otherwise
    best.challenge.too_few_to_ask = examples_per_unknown(split, heads) < kFewestEquations;
    if (best.challenge.too_few_to_ask) break;
    const bool noise = leaves_noise(split, best.best, starts.options.seed, effort);
    if (noise && drop_surplus(split, starts, effort, best, certificate)) return best;
    // Where fewer heads are at a noise floor already, more must first show that they help.
    if (best.challenge.agrees || noise) {
      Found more = probe(split, heads, starts, effort);
      record(more.best, certificate);
      best.challenge.more_heads_help = explains_better(more.best, best.best);
      if (!best.challenge.more_heads_help && heads > 2 * first) break;
      if (!best.challenge.more_heads_help) continue;
      if (more.settled()) return more;
    }
    Found found = glance(split, heads, starts, effort, certificate);
    const bool helps = explains_better(found.best, best.best);
    best.challenge.more_heads_help = helps;
    if (helps)
      best = std::move(found);
    else if (heads > 2 * first)
      break;
  }
  if (best.challenge.more_heads_help && !best.challenge.too_few_to_ask &&
      leaves_noise(split, best.best, starts.options.seed, effort) &&
      !drop_surplus(split, starts, effort, best, certificate))
    best.challenge.more_heads_help = more_heads_help(split, best, starts, effort, certificate);
  if (!best.settled())
    run_starts(split, best.best.heads(), starts, few_starts(starts), starts.options.starts, {}, effort, best);
  return best;
}

void seek_agreement(const Split& split, const Starts& starts, Effort& effort, Found& found) {
  for (int start = 0; start < starts.options.starts && !effort.expired(); ++start) {
    ++effort.starts;
    const Candidate next = solve_start(split, found.best.heads(), starts, start, {}, effort);
    found.challenge.agrees = distance(next, found.best) < kAgreement;
    if (found.challenge.agrees || explains_better(next, found.best)) return;
  }
}

double search_bytes(const Split& split, Index heads) {
  const double rows = static_cast<double>(split.train_x.rows), e = static_cast<double>(split.train_y.cols);
  const double d = static_cast<double>(split.train_x.cols), k = static_cast<double>(split.tokens),
               m = static_cast<double>(heads), features = m * d;
  // Two points (P, Phi, values, residual), tangents in float and in double (P, Q, values twice), images of
  // conjugate gradients, tokens as given and transposed; Gram matrices and their factors.
  return 8 * (rows * (3.5 * (m * k + features) + 5 * m * e + 8 * e + 3 * d) + 6 * features * features);
}

bool more_heads_help(const Split& split, const Found& found, const Starts& starts, Effort& effort,
                     Certificate& certificate) {
  const Index heads = 2 * found.best.heads();
  if (examples_per_unknown(split, heads) < kFewestEquations) return false;  // cannot be asked
  effort.reserve(search_bytes(split, heads), kDoubling);
  const Found more = probe(split, heads, starts, effort);
  certificate.trials.push_back({heads, more.best.train_error, more.best.held_out_error});
  return explains_better(more.best, found.best);
}

}  // namespace headlens::recovery
