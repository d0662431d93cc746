#include "recover/factors/recover_factors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/packing.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/distinct.hpp"
#include "recover/certificate/explain.hpp"
#include "recover/certificate/swapped.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/whiteness.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/challenge.hpp"
#include "recover/factors/content.hpp"
#include "recover/factors/match.hpp"
#include "recover/factors/phases.hpp"
#include "recover/factors/report.hpp"
#include "recover/factors/search.hpp"
#include "recover/factors/whiten.hpp"
#include "recover/variants/variant_structure.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kDenseBelow = 48;  // coordinates of the tokens up to which all entries of Theta are unknowns
// And up to which that search follows where few starts in factors find nothing.
constexpr Index kDenseFallback = 96;
constexpr int kStartsBefore = 1, kTurnedStartsBefore = 2;  // these; with rotary positions
constexpr double kTrimmed = 1e-9;  // singular values below this share of a head's largest are not looked for
constexpr double kExplained = 1e-11;  // relative residual that rounding may leave
constexpr double kAgreement = 0.05;   // relative distance at which two starts have found the same noisy heads
constexpr double kAsGood = 1.2;       // times the error of the best start: what fewer equations may add
constexpr double kWidestNoisyBar = 0.5;
constexpr Index kMostPlaces = 1 << 24;  // entries of matrices for every head and distance: 128 MiB

// Does the search among all entries of Theta follow where this one finds nothing?
bool dense_follows(const RecoverOptions& asked, Index dim, const backend::Backend& machine) {
  return asked.rank == "auto" && !asked.kv_groups && dim <= kDenseFallback && machine.recovers_all_entries();
}

// Are all labels explained but for rounding?
bool explained(const Split& split, const Factors& factors) {
  return factors.held_out_error < kExplained && factors.train_error < kExplained && split.held_x.rows > 0;
}

// Q and K, or V, of the user's tokens: rows 2^-t_a; O in the user's labels.
Factors out_of_units(const Units& units, Factors factors) {
  for (Index a = 0; a < factors.dim(); ++a)
    for (Index j = 0; j < factors.ranks.parameter_columns(); ++j)
      factors.values.parameters(a, j) =
          std::scalbn(factors.values.parameters(a, j), -units.tokens[static_cast<std::size_t>(a)]);
  for (Index i = 0; i < factors.values.o.rows() * factors.outputs(); ++i)
    factors.values.o.data()[i] = std::scalbn(factors.values.o.data()[i], units.labels);
  return factors;
}

// Where heads are told to the user: coordinates and labels as given.
struct Outside {
  const Whitening& whitening;
  const Units& units;
  Index dim;  // of the tokens

  Factors take(const Factors& white) const {
    return without_gauge(out_of_units(units, from_white(whitening, white)));
  }
  // Bars of every head as shares of its size there. |T dTheta T| <= |T|^2 |dTheta|: never too narrow.
  std::vector<HeadBound> relative(const Factors& white, const std::vector<HeadBound>& bounds) const {
    std::vector<double> coordinates;
    for (const int t : units.tokens) coordinates.push_back(std::scalbn(1.0, -t));
    const double grown = stretch(whitening, coordinates), labels = std::scalbn(1.0, units.labels);
    const Factors given = take(white);
    std::vector<HeadBound> out;
    for (Index i = 0; i < white.heads(); ++i) {
      const HeadBound& bound = bounds[static_cast<std::size_t>(i)];
      const HeadFactors head = head_of(given, i);
      out.push_back({head.q.cols == 0 ? 1 : relative_to_truth(grown * grown * bound.theta, theta_norm(head)),
                     relative_to_truth(grown * labels * bound.w, w_norm(head))});
    }
    return out;
  }
};

std::vector<Index> wide_heads(const Factors& factors, const std::vector<HeadBound>& relative, double widest) {
  std::vector<Index> out;
  for (Index i = 0; i < layer_heads(factors); ++i) {
    const HeadBound& bar = relative[static_cast<std::size_t>(i)];
    if ((factors.ranks.logits[static_cast<std::size_t>(i)] > 0 && !(bar.theta < widest)) || !(bar.w < widest))
      out.push_back(i);
  }
  return out;
}

// Without the coordinate 1 that biases need.
Split tokens_alone(const Factors& factors, Split split) {
  const Index d = split.train_x.cols - (factors.ranks.biased ? 1 : 0);
  split.train_x = split.train_x.block(0, 0, split.train_x.rows, d);
  split.held_x = split.held_x.block(0, 0, split.held_x.rows, d);
  return split;
}

// Another layer with the same labels, of a kind that has a name. Above kLargestDenseTheta Theta is not
// formed; there, and in layers that are not plain, whatever might be ambiguous counts as ambiguous.
Ambiguity ambiguity_of(const Split& split, const Split& thin, const Factors& factors,
                       const FactorBars& bars) {
  if (factors.dim() <= kLargestDenseTheta && factors.ranks.plain() && split.train_lengths.empty()) {
    const AttentionLayer dense = multiply_out(factored_layer(factors));
    const Candidate candidate{pack_theta(dense.theta), pack_w(dense.w), factors.train_error,
                              factors.held_out_error};
    return find_ambiguity(split, {thin, thin, bars.label_error, bars.heads}, candidate);
  }
  const std::vector<Index>& lengths = split.train_lengths;
  if ((lengths.empty() ? split.tokens : *std::max_element(lengths.begin(), lengths.end())) <= 2)
    return {Doubt::mirror, {}};
  if (token_groups(tokens_alone(factors, thin).train_x).count() > 1) return {Doubt::few_tokens, {}};
  if (!means_are_seen(tokens_alone(factors, split))) return {Doubt::mean_unseen, {}};
  if (!held_out_is_fresh(split, factors.heads())) return {Doubt::few_distinct, {}};
  return {};
}

// The tests of prove_large() on heads in factors.
Proof prove_factors(const Split& split, const Outside& outside, const Factors& factors, NewtonNeeds needed,
                    const RecoverOptions& options, Effort& effort) {
  const Split thin = first_equations(split, factors.ranks, needed.equations);
  Proof proof;
  proof.doubt = Doubt::wide_bars;
  proof.pools_mean.assign(static_cast<std::size_t>(factors.heads()), false);
  for (Index i = 0; i < factors.heads(); ++i)
    proof.pools_mean[static_cast<std::size_t>(i)] = factors.ranks.logits[static_cast<std::size_t>(i)] == 0;
  const FactorBars bars = factor_bars(thin, factors, LabelsAre::exact, options.seed, effort);
  if (effort.expired()) return {.doubt = Doubt::out_of_time};
  for (Index i = 0; i < layer_heads(factors); ++i) proof.heads.push_back(i);
  if (!bars.resolved || !unseen_directions(tokens_alone(factors, thin)).empty()) return proof;
  proof.response = bars.response;
  proof.relative = outside.relative(factors, bars.heads);
  for (HeadBound& bar : proof.relative) bar = {std::max(bar.theta, kTrimmed), std::max(bar.w, kTrimmed)};
  proof.heads = wide_heads(factors, proof.relative, kWidestBar);
  if (!proof.heads.empty()) return proof;
  Ambiguity other = ambiguity_of(split, thin, factors, bars);
  if (other.doubt != Doubt::none) {
    proof.doubt = other.doubt;
    proof.heads = std::move(other.heads);
  } else {
    proof.doubt = last_doubt(
        explained(split, factors),
        [&] { return factors_come_back(thin, factors, needed.inner, options.seed, effort); }, effort);
  }
  return proof;
}

// Of a layer with a mask or with positions, say, whose residual may pass for noise otherwise. The test has a
// matrix of d^2 entries for every head and distance, so that it is for layers of moderate size.
bool depends_on_places(const Split& white, const Factors& factors, Certificate& certificate, int threads) {
  const Index entries = factors.heads() * white.tokens * factors.dim() * factors.dim();
  if (entries > kMostPlaces) return false;
  const LayerVariant variant{factors.ranks.causal ? Mask::causal : Mask::none, factors.ranks.biased,
                             factors.ranks.rotary};
  const double z = distance_structure(tokens_alone(factors, white), variant_layer(factors, variant), threads);
  if (z < kStructure) return false;
  certificate.residual_z = std::max(certificate.residual_z.value_or(0), z);
  return true;
}

// Labels with noise: all examples count, another start must agree, and what is left must be noise.
Challenge test_noise(const Split& white, const Outside& outside, NewtonNeeds needed,
                     const RecoverOptions& options, Effort& effort, Factors& best,
                     std::vector<HeadBound>& bars, Certificate& certificate) {
  Challenge out;
  const double rows = static_cast<double>(white.train_x.rows), d = static_cast<double>(white.train_x.cols);
  effort.reserve(
      polish_bytes(white, best.ranks, rows, effort) + 16 * rows * d,  // tokens as given, and with ones
      "the recovery from labels with noise");
  best = timed_in(certificate, "polish", [&] {
    return polish(white, best, {.damping = 1e-6, .ridge = 1e-12, .max_inner = needed.inner}, "polish", effort)
        .factors;
  });
  if (effort.expired()) return out;
  Matrix<double> left =
      effort.context().machine.apply_factors(white.train(), best.ranks, best.values, effort.context());
  for (Index i = 0; i < left.rows(); ++i)
    for (Index j = 0; j < left.cols(); ++j) left(i, j) = white.train_y(i, j) - left(i, j);
  hide_missing(white.train_seen, left);
  const Whiteness whiteness = residual_whiteness(white, left, best.heads(), options.seed);
  certificate.residual_z = std::max(std::abs(whiteness.between_tokens), whiteness.with_functions);
  out.leaves_noise = whiteness.is_noise() && !depends_on_places(white, best, certificate, effort.threads());
  if (!out.leaves_noise) return out;
  RecoverOptions again = options;
  again.seed = options.seed + 1000;
  again.heads = layer_heads(best);
  again.starts = dense_follows(options, outside.dim, effort.context().machine) ? kStartsBefore : 2;
  Certificate aside;
  FactorSearch second{.enough = kAsGood * best.held_out_error, .needed = needed};
  timed_in(certificate, "starts", [&] { return search_factors(white, again, effort, aside, second), 0; });
  if (effort.expired() || second.best.heads() != best.heads()) return out;
  const Factors other =
      matched_to(best, polish(white, second.best,
                              {.damping = 1e-6, .ridge = 1e-12, .max_inner = needed.inner}, "polish", effort)
                           .factors);
  out.agrees = factor_distance(other, best, effort.threads()) < kAgreement;
  if (!out.agrees) return out;
  const FactorBars errors = timed_in(certificate, "error bars", [&] {
    return factor_bars(white, best, LabelsAre::noisy, options.seed, effort);
  });
  if (!errors.resolved) return out;
  certificate.noise = errors.noise;
  certificate.smallest_singular_value = errors.response;
  bars = outside.relative(best, errors.heads);
  out.bars_tell = wide_heads(best, bars, kWidestNoisyBar).empty();
  out.returns = true;  // another start has come to the same heads, and the bars are finite
  return out;
}

// Refuses what will not fit, before anything is allocated.
void reserve(const Split& split, const RecoverOptions& options, Effort& effort) {
  backend::HeadRanks most;
  most.logits.assign(static_cast<std::size_t>(descent_heads(options)), first_rank(split, options));
  most.values = most.logits;
  const double enough = 1.25 * kPolishEquations *
                        factor_unknowns(most, split.train_x.cols, split.train_y.cols) /
                        static_cast<double>(split.train_y.cols);
  const double bytes = polish_bytes(
      split, most,
      std::min(static_cast<double>(split.train_x.rows), std::max(static_cast<double>(split.tokens), enough)),
      effort);
  const double descent = descent_bytes(split, most, effort);
  const Index ones = options.bias ? 2 * (split.train_x.cols + 1) : 0;  // tokens with a last 1, twice
  effort.reserve(bytes + descent + 8 * static_cast<double>(split.train_x.rows * ones), "the recovery");
}

Whitening whitening_of(const Split& split, const RecoverOptions& options, int threads) {
  if (options.bias) return whiten_centred(split, threads);
  return whiten(split, threads);
}

// Few starts where another search follows. Columns that turn are of a fixed number, because their angles
// depend on it.
RecoverOptions as_searched(RecoverOptions options, Index dim, const backend::Backend& machine) {
  const bool turns = options.rotary != "none";
  if (dense_follows(options, dim, machine))
    options.starts = std::min(options.starts, turns ? kTurnedStartsBefore : kStartsBefore);
  if (turns) options.rank = std::to_string(rotary_rank(options, dim));
  return options;
}

// Of logits on white tokens.
double largest_logits(const Factors& factors) {
  double out = 0;
  for (Index i = 0; i < layer_heads(factors); ++i) out = std::max(out, theta_norm(head_of(factors, i)));
  return out;
}

void check_machine(const backend::Backend& machine, const RecoverOptions& options, const Split& split) {
  const bool is_simple = options.variant().plain() && !options.kv_groups && split.train_lengths.empty();
  require(is_simple || machine.recovers_from_a_part(), option("backend"), ": ", machine.name(),
          " given, but layers with a mask, biases, positions, padding or shared keys are recovered on the "
          "processor");
}

struct Judgement {
  Proof proof;
  Challenge noise;
  std::vector<HeadBound> bars;
};
// Proves a layer that explains its labels; tells noise from a wrong model otherwise.
void judge(const Split& white, const Outside& outside, const RecoverOptions& options, Effort& effort,
           FactorSearch& search, Judgement& out, Certificate& certificate) {
  Factors& best = search.best;
  best.train_error = error_on(white.train(), best, effort.context());  // Newton has seen the first examples
  if (!shares_as_asked(search, options)) {
    out.proof.doubt = Doubt::wide_bars;
    return;
  }
  if (best.held_out_error < kProof) {
    out.proof = timed_in(certificate, "challenge",
                         [&] { return prove_factors(white, outside, best, search.needed, options, effort); });
    out.bars = out.proof.relative;
  } else if (!effort.expired() && search.at_minimum && !overfits(search)) {
    out.noise = test_noise(white, outside, search.needed, options, effort, best, out.bars, certificate);
  }
}

void say_too_late(Certificate& certificate) {
  certificate.status = RecoveryStatus::stalled;
  certificate.reason = "The time limit came before any head was found.";
  certificate.advice = message("Raise ", option("time-limit"), ", or give fewer examples.");
}

}  // namespace

bool wants_factors(const RecoverOptions& options, Index dim) {
  if (options.method != RecoverMethod::varpro || options.best_fit || options.start != RecoverStart::random)
    return false;
  if (options.kv_groups) return true;
  if (options.rotary != "none") return dim > kDenseBelow && !options.bias && options.rank != "full";
  return options.rank == "auto" ? dim > kDenseBelow : options.rank != "full";
}

bool recover_factors(const Split& given, const Units& given_units, const RecoverOptions& asked,
                     Effort& effort, Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  if (squared_norm(given.train_y) == 0 || squared_norm(given.train_x) == 0) return false;
  certificate.variant = asked.variant();
  const backend::Backend& machine = effort.context().machine;
  const Index dim = given.train_x.cols;
  check_machine(machine, asked, given);
  const RecoverOptions options = as_searched(asked, dim, machine);
  reserve(given, options, effort);
  const WithOnes biased = options.bias ? with_ones(given) : WithOnes{{}, {}, given};
  const Split& split = biased.split;
  Units units = given_units;
  if (options.bias) units.tokens.push_back(0);
  const Whitening whitening =
      timed_in(certificate, "whiten", [&] { return whitening_of(split, options, effort.threads()); });
  const Split white = in_white(whitening, split);
  if (white.train_x.cols < split.train_x.cols)
    certificate.span_dimension = white.train_x.cols - (options.bias ? 1 : 0);
  const Outside outside{whitening, units, dim};

  FactorSearch search;
  const Factors& best = search.best;
  Judgement judged;
  const bool finished = effort.in_time([&] {
    search_factors(white, options, effort, certificate, search);
    judge(white, outside, options, effort, search, judged, certificate);
  });
  if (best.heads() == 0) return say_too_late(certificate), true;
  const bool late = !finished || effort.expired();
  certificate.status = status_of(search, judged.noise, judged.proof, late);
  if (!is_certified(certificate.status) && !late && !(best.held_out_error < kProof) &&
      dense_follows(asked, dim, machine)) {
    certificate.residual_z = certificate.noise = certificate.smallest_singular_value = std::nullopt;
    certificate.status = {};
    certificate.span_dimension = {};
    return false;
  }
  effort.rounding = rounding_outside(whitening, split, largest_logits(best));
  const Factors found = outside.take(best);
  describe({split, white, found, options, search, judged.noise, judged.proof, judged.bars, effort.threads()},
           late, recovery);
  return true;
}

}  // namespace headlens::recovery
