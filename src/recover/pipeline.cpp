// examples -> units -> split -> starts -> fewer heads -> certificate
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "attention/packing.hpp"
#include "base/parallel.hpp"
#include "comm/communicator.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "headlens/ranks.hpp"
#include "headlens/recover.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/as_written.hpp"
#include "recover/certificate/explain.hpp"
#include "recover/certificate/noise_floor.hpp"
#include "recover/certificate/verdict.hpp"
#include "recover/certificate/whiteness.hpp"
#include "recover/descent.hpp"
#include "recover/factors/recover_factors.hpp"
#include "recover/left_over.hpp"
#include "recover/linearisation.hpp"
#include "recover/moments.hpp"
#include "recover/outliers.hpp"
#include "recover/over_ranks.hpp"
#include "recover/parity/parity.hpp"
#include "recover/reduce.hpp"
#include "recover/sculpt/sculpt.hpp"
#include "recover/search.hpp"
#include "recover/unit_scales.hpp"
#include "recover/variants/choose_variant.hpp"
#include "recover/variants/recover_variant.hpp"
#include "recover/variants/variant_search.hpp"
#include "recover/variants/variant_structure.hpp"

namespace headlens {
namespace recovery {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWidestNoisyBar = 0.5;  // relative, of a head that is called approximate

// The paper's phases in place of the search. Its answer is challenged like any other.
Found search_by_sculpting(const Split& split, const RecoverOptions& options, Effort& effort,
                          Recovery& recovery) {
  effort.reserve(sculpt_bytes(split, options), "sculpting");
  Sculpture sculpture = sculpt(split, options, effort);
  recovery.certificate.sculpt = std::move(sculpture.report);
  recovery.sculpt_span = std::move(sculpture.span);
  return {std::move(sculpture.candidate), {}};
}

double predicted_bytes(const Split& split, Index heads) {
  double dense = 0;  // the largest factor on the way to that many heads
  for (Index fewer = 1; fewer <= heads; ++fewer) dense = std::max(dense, dense_bytes(split, fewer));
  return search_bytes(split, heads) + dense;
}

// What sculpting alone reaches is shown as it is, whatever its error: nothing tests it.
bool is_untested(const RecoverOptions& options) {
  return options.method == RecoverMethod::sculpt && !options.sculpt.polish;
}

// Of more_heads_help(), where it may be asked. Once the search has ended it would be too late to refuse.
double doubled_bytes(const Split& split, const RecoverOptions& options) {
  if (options.best_fit || is_shown_alone(options.method) || is_untested(options)) return 0;
  Index most = 0;
  for (Index heads = options.heads.value_or(1); heads <= options.heads.value_or(options.max_heads); ++heads)
    if (examples_per_unknown(split, 2 * heads) >= kFewestEquations) most = 2 * heads;
  return most > 0 ? search_bytes(split, most) : 0;
}

template <class Work>
auto timed_phase(Certificate& certificate, const std::string& name, Work&& work) {
  Phase phase{name, 0};
  auto result = recovery::timed(phase.seconds, work);
  certificate.phases.push_back(std::move(phase));
  return result;
}

// An answer that leaves noise: fewer heads if fewer do, then every challenge that the verdict asks for.
void test_noisy(const Split& split, const Units& units, const Starts& starts, Effort& effort, Found& found,
                Certificate& certificate) {
  const RecoverOptions& options = starts.options;
  const bool sculpted = options.method == RecoverMethod::sculpt;
  if (sculpted)
    timed_phase(certificate, "starts", [&] { return seek_agreement(split, starts, effort, found), 0; });
  if ((options.heads || sculpted) && found.challenge.agrees)
    found.challenge.more_heads_help = more_heads_help(split, found, starts, effort, certificate);
  if (!found.challenge.agrees || found.challenge.more_heads_help || effort.expired()) return;
  if (!options.heads || looks_degenerate(found.best))
    found.best = timed_phase(certificate, "reduce",
                             [&] { return reduce(split, std::move(found.best), 0.02, effort); });
  found.best = timed_phase(certificate, "polish", [&] {
    const LmOptions tight{.ridge = 1e-14, .mu = 1e-6, .stall_steps = 8, .flat = kTight};
    return solve_from(split, std::move(found.best.theta), tight, "polish", effort);
  });
  if (effort.expired()) return;
  const Whiteness white = residual_whiteness(split, found.best, options.seed, effort.threads());
  found.challenge.leaves_noise = white.is_noise();
  certificate.residual_z = std::max(std::abs(white.between_tokens), white.with_functions);
  if (found.challenge.leaves_noise) {  // of a layer whose logits depend on places, say
    const double z =
        distance_structure(split, unpack_layer(found.best.theta, found.best.w), effort.threads());
    found.challenge.leaves_noise = z < kStructure;
    if (z >= kStructure) certificate.residual_z = std::max(*certificate.residual_z, z);
  }
  // Heads that are faint or nearly parallel hide from random functions. Small problems try another head in
  // sharpen().
  if (found.challenge.leaves_noise && found.best.held_out_error < kNear &&
      is_beyond_factors(split, found.best.heads())) {
    const LeftOver left = timed_phase(
        certificate, "left over", [&] { return find_left_over(split, found.best, options.seed, effort); });
    found.challenge.leaves_noise = !left.is_head();
    certificate.residual_z = std::max(*certificate.residual_z, left.z);
  }
  found.challenge.returns = timed_phase(
      certificate, "nudge", [&] { return returns_after_nudge(split, found.best, options.seed, effort); });
  timed_phase(certificate, "error bars",
              [&] { return describe_noisy(split, found.best, units, options.seed, effort, certificate); });
  certificate.heads_in_doubt = heads_beyond(certificate, kWidestNoisyBar);
  found.challenge.bars_tell = !certificate.per_head.empty() && certificate.heads_in_doubt.empty();
}

// An answer that predicts 8 digits: fewer heads if fewer do, the last digit, and a bound on every head.
Proof test_exact(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                 Found& found, Certificate& certificate) {
  const Split enough = first_examples(split, found.best.heads());  // a part shows what all of them would
  if (!options.heads || looks_degenerate(found.best))
    found.best =
        timed_phase(certificate, "reduce", [&] { return reduce(enough, std::move(found.best), 0, effort); });
  found.best = timed_phase(certificate, "polish", [&] {
    return sharpen(split, std::move(found.best), !options.heads, options.seed, effort);
  });
  const bool has_last_digit =  // by a factor of all examples, which no other solver can better
      can_be_dense(split, found.best.heads()) &&
      dense_examples(split, found.best.heads()).train_x.rows == split.train_x.rows;
  if (!has_last_digit && !explained(split, found.best, effort.threads()))
    found.best =
        timed_phase(certificate, "polish", [&] { return last_digits(split, std::move(found.best), effort); });
  return timed_phase(certificate, "error bars",
                     [&] { return prove(split, found.best, units.theta_weights(), options.seed, effort); });
}

// The heads as the method finds them.
Found find_heads(const Split& split, const Starts& starts, Effort& effort, Recovery& recovery) {
  const RecoverOptions& options = starts.options;
  if (options.method == RecoverMethod::sculpt) return search_by_sculpting(split, options, effort, recovery);
  if (options.method == RecoverMethod::moments)
    return {find_by_moments(split, starts.span, options, effort), {}};
  if (options.method == RecoverMethod::gradient) return {find_by_descent(split, options, effort), {}};
  if (options.best_fit) return {search_best_fit(split, *options.heads, starts, effort), {}};
  return options.heads ? search(split, *options.heads, starts, effort)
                       : search_head_count(split, starts, effort, recovery.certificate);
}

// The verdict on heads that explain something: with every digit and every challenge, or as they are.
Proof test_heads(const Split& split, const Units& units, const Starts& starts, Effort& effort, Found& found,
                 Certificate& certificate) {
  const RecoverOptions& options = starts.options;
  if (is_untested(options)) return {};
  if (effort.expired()) return {.doubt = Doubt::out_of_time};
  if (options.best_fit || is_shown_alone(options.method)) {
    const Whiteness white = residual_whiteness(split, found.best, options.seed, effort.threads());
    certificate.residual_z = std::max(std::abs(white.between_tokens), white.with_functions);
    if (options.best_fit || found.best.held_out_error > kProof) return {};
    return prove(split, found.best, units.theta_weights(), options.seed, effort);
  }
  if (found.best.held_out_error > kProof && found.best.held_out_error < kNear)
    found.best = timed_phase(certificate, "polish", [&] {
      return sharpen(split, std::move(found.best), false, options.seed, effort);
    });
  if (found.best.held_out_error > kProof) test_noisy(split, units, starts, effort, found, certificate);
  if (found.best.held_out_error > kProof) return {};
  return test_exact(split, units, options, effort, found, certificate);
}

// The same, as far as the time limit lets it: what it ends is neither a proof nor a challenge that was met.
Proof test_in_time(const Split& split, const Units& units, const Starts& starts, Effort& effort, Found& found,
                   Certificate& certificate) {
  Proof proof;
  Candidate before = copy_of(found.best);
  if (effort.in_time([&] { proof = test_heads(split, units, starts, effort, found, certificate); }))
    return proof;
  found = {std::move(before), {}};
  return {.doubt = Doubt::out_of_time};
}

// The heads that the solver was at when the time limit ended it, if it had any.
Candidate where_it_was(const Split& split, Effort& effort) {
  Candidate out = std::move(effort.latest);
  if (out.heads() > 0) out.held_out_error = held_out_error(split, out.theta, out.w, effort.threads());
  return out;
}

// Any layer: no method that ends here knows more of it than the examples say.
void recover_heads(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                   Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  require(options.method != RecoverMethod::moments || split.tokens >= 4, option("method"),
          ": moments needs four tokens per example or more, the examples have ", split.tokens);
  const Index d = split.train_x.cols, directions = d * d;  // of Theta: what sculpting and moments look at
  const bool by_directions =
      options.method == RecoverMethod::sculpt || options.method == RecoverMethod::moments;
  require(!by_directions || options.heads.value_or(1) <= directions, option("heads"), ": ",
          options.heads.value_or(1), " given, expected at most ", directions, " with method ",
          name(options.method), ": tokens of ", d, " coordinates have no more directions");
  effort.require_room(doubled_bytes(split, options), kDoubling);
  effort.reserve(predicted_bytes(split, options.heads.value_or(options.max_heads)), "the recovery");
  effort.rounding = 0;  // units are powers of two

  Starts starts{options, {}};
  Found found;
  const bool found_in_time = effort.in_time([&] {
    starts.span =
        timed_phase(certificate, "starts", [&] { return make_starts(split, options, effort).span; });
    found = timed_phase(certificate, "search", [&] { return find_heads(split, starts, effort, recovery); });
  });
  if (!found_in_time) found = {where_it_was(split, effort), {}};
  certificate.moment_values = starts.span.values;
  const bool any_label = squared_norm(split.train_y) > 0;
  const Proof proof = any_label ? test_in_time(split, units, starts, effort, found, certificate) : Proof{};
  certificate.status = verdict(split, found.best, found.challenge, proof, effort.expired());
  if (options.best_fit && any_label) {
    const bool measured = !effort.expired() && effort.in_time([&] {
      certificate.best_fit = excess_error(split, found.best, effort.threads());
    });
    certificate.status = measured ? RecoveryStatus::best_fit : RecoveryStatus::stalled;
  }
  describe_proven(proof, found.best, units, certificate);
  certificate.heads = found.best.heads();
  certificate.train_error = found.best.train_error;
  certificate.held_out_error = found.best.held_out_error;
  if (certificate.heads > 0)
    certificate.examples_per_unknown = examples_per_unknown(split, certificate.heads);
  certificate.starts = effort.starts;
  explain({split, options, found.best, found.challenge, proof}, certificate);
  const bool returned = certificate.status == RecoveryStatus::recovered ||
                        certificate.status == RecoveryStatus::approximate ||
                        certificate.status == RecoveryStatus::best_fit;
  if (!any_label || found.best.heads() == 0) return;
  recovery.best = from_units(units, unpack_layer(found.best.theta, found.best.w));
  if (returned) recovery.layer = recovery.best;
}

// Of what is not shared.
std::uint64_t copied_bytes(const Examples& from, const Examples& to) {
  std::uint64_t out = 0;
  for (const auto& [one, other] : {std::pair{&from.x, &to.x}, {&from.y, &to.y}, {&from.seen, &to.seen}})
    if (one->raw() != other->raw()) out += other->bytes();
  return out;
}

Index missing_labels(const Examples& examples) {
  return std::count(examples.seen.data<double>(), examples.seen.data<double>() + examples.seen.size(), 0.0);
}

Recovery recover_layer(const Examples& examples, const RecoverOptions& asked, const Execution& execution) {
  const Heed heeding(execution);
  RecoverOptions options = asked;
  const auto start = Clock::now();
  require_turned_columns(options, examples.dim());
  Effort effort(options, execution, examples.x.bytes() + examples.y.bytes() + examples.seen.bytes());
  Recovery recovery;
  Certificate& certificate = recovery.certificate;
  const bool any_layer = !knows_parities(options.method);
  const Units units = any_layer ? units_of(examples, effort.threads())
                                : plain_units(examples);  // those of a parity are known
  require_representable(units);
  Examples scaled = in_units(examples, units, effort.threads());
  scaled = with_labels_alone(scaled);
  if (options.best_fit) scaled = with_equal_inputs_together(scaled);
  effort.add_copies(copied_bytes(examples, scaled));
  const Split split = options.best_fit ? hold_out_whole_inputs(scaled) : hold_out(scaled);
  certificate.examples = examples.count();
  certificate.held_out = split.held_x.rows / split.tokens;
  certificate.backend = effort.context().machine.name();
  certificate.missing_labels = missing_labels(examples);
  require(certificate.missing_labels == 0 || effort.context().machine.recovers_from_a_part(),
          "Y: ", certificate.missing_labels, " labels are missing, and the back end ", certificate.backend,
          " needs all of them; leave out ", option("backend"));
  if (options.choice == VariantChoice::automatic) choose_variant(split, effort, options, certificate);
  const bool simple = !split.is_partial() && options.variant().plain() && split.train_lengths.empty();
  const bool is_variant =
      wants_variant(options, examples) || recover_uneven(split, units, options, effort, recovery);
  if (wants_variant(options, examples)) recover_variant(split, units, options, effort, recovery);
  const bool in_factors = !is_variant && any_layer && wants_factors(options, examples.dim()) &&
                          recover_factors(split, units, options, effort, recovery);
  if (!any_layer)
    learn_parity(split, options, effort, recovery);
  else if (!in_factors && !is_variant && !simple)
    recover_variant(split, units, options, effort, recovery);
  else if (!in_factors && !is_variant)
    recover_heads(split, units, options, effort, recovery);
  if (any_layer) test_as_written(examples, effort, execution, recovery);
  certificate.trials.push_back({certificate.heads, certificate.train_error, certificate.held_out_error});
  certificate.starts = effort.starts;
  certificate.steps = effort.steps;
  certificate.inner_steps = effort.inner;
  certificate.predicted_peak_bytes = effort.reserved_bytes;
  certificate.trace = std::move(effort.trace);
  if (certificate.noise) *certificate.noise = std::scalbn(*certificate.noise, units.labels);
  certificate.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return recovery;
}

}  // namespace
}  // namespace recovery

Recovery recover(const Examples& examples, const RecoverOptions& options, const Execution& execution) {
  options.validate();
  if (!comm::world().alone()) {
    recovery::require_same_examples(examples, comm::world());
    Recovery found;
    if (!recovery::is_shared(examples, options)) {
      on_first_rank([&] { found = recover(examples, options, execution); });
      return found;
    }
  }
  const recovery::Recoverer once = [&](const Examples& given, std::optional<double> seconds) {
    RecoverOptions within = options;
    within.time_limit_seconds = seconds;
    return recovery::recover_layer(given, within, execution);
  };
  return recovery::recover_despite_outliers(examples, options, execution, once);
}

}  // namespace headlens
