#include "recover/variants/recover_variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/head_content.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/whiteness.hpp"
#include "recover/certificate/words_of_doubt.hpp"
#include "recover/factors/phases.hpp"
#include "recover/factors/recover_factors.hpp"
#include "recover/variants/variant_proof.hpp"
#include "recover/variants/variant_structure.hpp"

namespace headlens::recovery {
namespace {

constexpr double kAgreement = 0.05;  // relative distance at which two starts have found the same noisy heads
constexpr double kWidestNoisyBar = 0.5;
constexpr double kFewestEquations = 1;
constexpr double kUneven = 100, kNearlySingular = 1e10;  // largest over smallest second moment of the tokens

double predicted_bytes(const VariantData& data, Index heads) {
  const VariantShape shape = data.shape(heads);
  const double rows = static_cast<double>(data.split.train_x.rows),
               k = static_cast<double>(data.split.tokens), e = static_cast<double>(data.split.train_y.cols),
               m = static_cast<double>(heads), z = static_cast<double>(shape.columns()),
               b = static_cast<double>(shape.features());
  // Two points, tangents in both precisions, images of conjugate gradients and draws of noise, Gram matrices
  // and factors.
  const double point = 8 * (z + m * k + b + m * e + e), tangents = 12 * (z + m * k + m * e + b);
  // Where labels are missing: a factor for every output of both points, and the orthonormal features.
  const double partial = data.split.is_partial() ? 8 * (2 * e * b * b + rows * b) : 0;
  return rows * (2 * point + tangents + 56 * e) + 8 * (6 * b * b + 24 * z * static_cast<double>(shape.dim)) +
         partial;
}

VariantOutside outside_of(const Whitening& whitening, const Units& units, Index dim) {
  const Index inside = whitening.plain ? dim : whitening.turn.cols();
  VariantOutside out{Matrix<double>::zeros(dim, inside), units.labels};
  for (Index a = 0; a < dim; ++a)
    for (Index b = 0; b < inside; ++b)
      out.m(a, b) = std::scalbn(whitening.plain ? static_cast<double>(a == b) : whitening.turn(a, b),
                                -units.tokens[static_cast<std::size_t>(a)]);
  return out;
}

// Labels with noise: what is left must be noise, and another start must agree.
struct NoiseTest {
  bool leaves_noise = false, agrees = false, bars_tell = false;
  std::vector<HeadBound> bars = {};
};
NoiseTest test_noise(const VariantData& data, const VariantOutside& outside, const RecoverOptions& options,
                     const VariantCandidate& best, Effort& effort, Certificate& certificate) {
  NoiseTest out;
  const Whiteness white = residual_whiteness(data.split, residual_of(data, best, effort.threads()),
                                             best.shape.heads, options.seed);
  const double distances = distance_structure(data, best, effort.threads());
  certificate.residual_z = std::max({std::abs(white.between_tokens), white.with_functions, distances});
  out.leaves_noise = white.is_noise() && distances < kStructure;
  if (!out.leaves_noise) return out;
  for (int again = 0; again < options.starts && !out.agrees && !effort.expired(); ++again) {
    const VariantCandidate other = search_variant(
        data, best.shape.heads, 1, options.seed + 1000 + static_cast<std::uint64_t>(again), effort);
    out.agrees = variant_distance(other, best) < kAgreement;
  }
  if (!out.agrees || effort.expired()) return out;
  const VariantBars bars = variant_bars(data, outside, best, VariantLabels::noisy, options.seed, effort);
  if (!bars.resolved) return out;
  certificate.noise = bars.noise;
  certificate.smallest_singular_value = bars.response;
  out.bars = bars.relative;
  out.bars_tell = std::all_of(bars.relative.begin(), bars.relative.end(), [](const HeadBound& bar) {
    return bar.theta < kWidestNoisyBar && bar.w < kWidestNoisyBar;
  });
  return out;
}

// At a minimum that is not zero, bars count on being at it.
VariantCandidate settle(const VariantData& data, VariantCandidate best, Effort& effort) {
  const VariantShape shape = best.shape;
  const LmOptions tight{.ridge = 1e-14, .mu = 1e-6, .stall_steps = 8, .flat = kTight};
  return solve_from(data, shape, std::move(best.parameters), tight, "polish", effort);
}

RecoveryStatus status_of(const VariantData& data, const VariantCandidate& best, const Proof& proof,
                         const NoiseTest& noise, bool late) {
  if (best.held_out_error < kProof) {
    if (proof.doubt == Doubt::none) return RecoveryStatus::recovered;
    if (proof.doubt == Doubt::few_distinct) return RecoveryStatus::needs_more_examples;
    return late ? RecoveryStatus::stalled : RecoveryStatus::not_identified;
  }
  if (late) return RecoveryStatus::stalled;
  const double equations = equations_per_unknown(data, best.shape.heads);
  if (equations < kFewestEquations) return RecoveryStatus::needs_more_examples;
  if (noise.leaves_noise && noise.agrees && noise.bars_tell) return RecoveryStatus::approximate;
  return best.train_error < 0.5 * best.held_out_error ? RecoveryStatus::needs_more_examples
                                                      : RecoveryStatus::not_identified;
}

void explain_variant(const VariantData& data, const VariantCandidate& best, const Proof& proof,
                     const NoiseTest& noise, Certificate& c) {
  Words words;
  if (c.status == RecoveryStatus::stalled)
    words = {fmt::format("The time limit came first; {} heads leave {:.1e} of the held-out labels so far.",
                         best.shape.heads, best.held_out_error),
             message("Raise ", option("time-limit"), ".")};
  else if (best.held_out_error < kProof)
    words = words_of_doubt(proof.doubt);
  else if (c.status == RecoveryStatus::needs_more_examples)
    words = {
        fmt::format("The training labels are explained to {:.1e}, the held-out ones to {:.1e}: the examples "
                    "give {:.1f} equations per unknown.",
                    best.train_error, best.held_out_error, equations_per_unknown(data, best.shape.heads)),
        "Give more examples: 8 equations per unknown are plenty."};
  else if (noise.leaves_noise)
    words = {noise.agrees ? "The labels are too noisy: errors of half the size of a head would not show."
                          : "Several starts explain the labels up to noise, with different heads.",
             "Give more examples, or labels with less noise."};
  else
    words = {fmt::format(
                 "{} heads (variant: {}) leave {:.1e} of the held-out labels, and what is left is not noise.",
                 best.shape.heads, name(data.variant), best.held_out_error),
             message("Check ", option("mask"), ", ", option("bias"), " and ", option("rotary"), "; raise ",
                     option("heads"), " or ", option("starts"), ".")};
  c.reason = words.reason;
  c.advice = words.advice;
  c.heads_in_doubt = proof.found_doubt() ? proof.heads : std::vector<Index>{};
  c.unseen_directions = unseen_directions(data.split);
}

// (sum of singular values)^2 / sum of their squares, of Theta; of Q K^T with rotary positions.
double effective_rank_of(const AttentionLayer& layer, Index head) {
  const Index d = layer.dim();
  Matrix<double> theta(d, d);
  const auto slice = [&](const Array& array) {
    return MatrixView<const double>(array.data<double>() + head * d * array.dim(2), d, array.dim(2));
  };
  if (layer.variant.rotary)
    gemm(Trans::no, Trans::yes, 1.0, slice(layer.q), slice(layer.k), 0.0, theta.view());
  else
    copy_rows(slice(layer.theta), theta.view());
  const Svd all = svd(theta.view());
  double sum = 0, squares = 0;
  for (const double value : all.values) sum += value, squares += value * value;
  return squares > 0 ? sum * sum / squares : 0;
}

void describe_heads(const AttentionLayer& layer, const std::vector<HeadBound>& bars,
                    Certificate& certificate) {
  const VariantShape shape = shape_of(layer);
  const Matrix<double> parameters = pack_parameters(layer);
  const Index d = layer.dim(), e = layer.outputs();
  for (Index i = 0; i < layer.heads() && !bars.empty(); ++i) {
    HeadReport report;
    report.scale = norm_of(content_of(shape, parameters, i));
    report.effective_rank = effective_rank_of(layer, i);
    report.w_norm = std::sqrt(squared_norm({layer.w.data<double>() + i * d * e, d, e}));
    report.theta_bar = bars[static_cast<std::size_t>(i)].theta;
    report.w_bar = bars[static_cast<std::size_t>(i)].w;
    if (shape.rotary()) report.theta_rank = shape.rank;
    certificate.per_head.push_back(report);
  }
}

// Of logits on white tokens.
double largest_logits(const VariantCandidate& candidate) {
  double out = 0;
  for (Index i = 0; i < candidate.shape.heads; ++i)
    out = std::max(out, norm_of(content_of(candidate.shape, candidate.parameters, i)));
  return out;
}

// All that a search came to.
struct Outcome {
  const VariantData& data;
  const VariantOutside& outside;
  const VariantCandidate& best;
  const Proof& proof;
  const NoiseTest& noise;
};

// The layer, and the certificate for the status that it has.
void describe(const Outcome& o, bool late, Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  certificate.status = status_of(o.data, o.best, o.proof, o.noise, late);
  certificate.heads = o.best.shape.heads;
  certificate.train_error = o.best.train_error;
  certificate.held_out_error = o.best.held_out_error;
  certificate.examples_per_unknown = equations_per_unknown(o.data, o.best.shape.heads);
  if (o.proof.response > 0) certificate.smallest_singular_value = o.proof.response;
  recovery.best =
      unpack_layer(o.outside.shape(o.best.shape), o.outside.parameters(o.best.shape, o.best.parameters),
                   o.outside.readout(o.best.shape, o.best.w));
  const bool exact = o.best.held_out_error < kProof;
  describe_heads(*recovery.best, exact ? o.proof.relative : o.noise.bars, certificate);
  const bool returned =
      certificate.status == RecoveryStatus::recovered || certificate.status == RecoveryStatus::approximate;
  if (returned)
    recovery.layer = recovery.best;
  else
    explain_variant(o.data, o.best, o.proof, o.noise, certificate);
}

void check_options(const RecoverOptions& options) {
  require(
      options.method == RecoverMethod::varpro && !options.best_fit && options.start == RecoverStart::random,
      option("method"),
      ": layers with a mask, biases, positions, padding or missing labels are recovered by varpro from "
      "random starts, without ",
      option("best-fit"));
}

// Do the tokens lie in a subspace, or is their covariance so far from one that the search needs them
// whitened?
bool takes_uneven(const RecoverOptions& options, const Split& split, int threads) {
  if (options.method != RecoverMethod::varpro || options.best_fit || options.start != RecoverStart::random ||
      split.tokens < 3 || !(squared_norm(split.train_y) > 0) || !(squared_norm(split.train_x) > 0))
    return false;
  const double ratio = second_moment_ratio(split, threads);
  return !std::isfinite(ratio) || (options.heads && ratio > kUneven && ratio < kNearlySingular);
}

}  // namespace

bool wants_variant(const RecoverOptions& options, const Examples& examples) {
  const LayerVariant variant = options.variant();
  const bool is_simple = variant.plain() && examples.seen.size() == 0;
  const bool simple = is_simple && examples.lengths.empty();
  return !simple && !wants_factors(options, examples.dim());
}

Whitening variant_whitening(const Split& split, int threads) { return whiten(split, threads); }

void recover_variant(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                     Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  check_options(options);
  certificate.variant = options.variant();
  if (squared_norm(split.train_y) == 0) {
    certificate.reason = "All labels are zero: every layer with W = 0 has these outputs.";
    certificate.advice = "Check that Y holds the outputs of the layer.";
    return;
  }
  const Whitening whitening =
      timed_in(certificate, "whiten", [&] { return variant_whitening(split, effort.threads()); });
  const Index d = split.train_x.cols;
  const VariantData data = variant_data(in_white(whitening, split), options, d);
  const VariantOutside outside = outside_of(whitening, units, d);
  if (data.split.train_x.cols < d) certificate.span_dimension = data.split.train_x.cols;
  effort.reserve(predicted_bytes(data, options.heads.value_or(options.max_heads)), "the recovery");
  VariantCandidate best;
  Proof proof;
  NoiseTest noise;
  const bool finished = effort.in_time([&] {
    best = timed_in(certificate, "search", [&] {
      return options.heads ? search_variant(data, *options.heads, options.starts, options.seed, effort)
                           : count_variant_heads(data, options, effort, certificate);
    });
    if (!(best.held_out_error < kProof) && !effort.expired())
      best = timed_in(certificate, "polish", [&] { return settle(data, std::move(best), effort); });
    if (best.held_out_error < kProof)
      proof = timed_in(certificate, "challenge",
                       [&] { return prove_variant(data, outside, best, options.seed, effort); });
    else if (!effort.expired() && equations_per_unknown(data, best.shape.heads) > kFewestEquations)
      noise = timed_in(certificate, "challenge",
                       [&] { return test_noise(data, outside, options, best, effort, certificate); });
  });
  if (best.parameters.rows() == 0) {
    certificate.status = RecoveryStatus::stalled;
    certificate.reason = "The time limit came before any head was found.";
    certificate.advice = message("Raise ", option("time-limit"), ".");
    return;
  }
  effort.rounding = rounding_outside(whitening, split, largest_logits(best));
  describe({data, outside, best, proof, noise}, !finished || effort.expired(), recovery);
}

bool recover_uneven(const Split& split, const Units& units, const RecoverOptions& options, Effort& effort,
                    Recovery& recovery) {
  if (wants_factors(options, split.train_x.cols) || !takes_uneven(options, split, effort.threads()))
    return false;
  Recovery whitened;
  recover_variant(split, units, options, effort, whitened);
  if (whitened.certificate.status != RecoveryStatus::recovered) return false;
  whitened.certificate.examples = recovery.certificate.examples;
  whitened.certificate.held_out = recovery.certificate.held_out;
  whitened.certificate.backend = recovery.certificate.backend;
  recovery = std::move(whitened);
  return true;
}

}  // namespace headlens::recovery
