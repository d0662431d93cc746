#include "recover/variants/variant_proof.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/head_content.hpp"
#include "base/random.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/distinct.hpp"
#include "recover/certificate/swapped.hpp"
#include "recover/certificate/token_span.hpp"

namespace headlens::recovery {
namespace {

constexpr double kExplained = 1e-11;  // relative residual that rounding may leave
constexpr double kNudge = 1e-3, kReturned = 0.02;

// |a - b| / |b|
double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(squares / std::max(size, 1e-300));
}

std::vector<double> w_of(const VariantCandidate& c, Index head) {
  const Index size = c.shape.dim * c.w.cols();
  return {c.w.data() + head * size, c.w.data() + (head + 1) * size};
}

double distance_of_heads(const VariantCandidate& a, Index i, const VariantCandidate& b, Index j) {
  return std::max(
      relative_distance(content_of(a.shape, a.parameters, i), content_of(b.shape, b.parameters, j)),
      relative_distance(w_of(a, i), w_of(b, j)));
}

// Nudged by a thousandth, do the heads come back?
bool comes_back(const VariantData& data, const VariantCandidate& candidate, std::uint64_t seed,
                Effort& effort) {
  Matrix<double> nudged = headlens::copy_of(candidate.parameters);
  const Index size = nudged.rows() * nudged.cols();
  const double entry = std::sqrt(squared_norm(nudged) / static_cast<double>(size));
  Stream stream(seed, "nudge of a variant");
  for (Index i = 0; i < size; ++i) nudged.data()[i] += kNudge * entry * stream.normal();
  const LmOptions lm{.ridge = 1e-14, .mu = 1e-6, .tolerance = 1e-24, .max_steps = 20, .stall_steps = 6};
  const VariantCandidate back = solve_from(data, candidate.shape, std::move(nudged), lm, "nudge", effort);
  return variant_distance(back, candidate) < kReturned * kNudge;
}

// Another layer with the same labels, of a kind that has a name. Whatever might be ambiguous counts as
// ambiguous.
Doubt ambiguity_of(const VariantData& data, const VariantCandidate& candidate) {
  const std::vector<Index>& lengths = data.split.train_lengths;
  const Index longest =
      lengths.empty() ? data.split.tokens : *std::max_element(lengths.begin(), lengths.end());
  if (longest <= 2) return Doubt::mirror;
  if (token_groups(data.split.train_x).count() > 1) return Doubt::few_tokens;
  if (!means_are_seen(data.split)) return Doubt::mean_unseen;
  if (!held_out_is_fresh(data.split, candidate.shape.heads)) return Doubt::few_distinct;
  return Doubt::none;
}

}  // namespace

double variant_distance(const VariantCandidate& a, const VariantCandidate& b) {
  if (a.shape.heads != b.shape.heads) return std::numeric_limits<double>::infinity();
  std::vector<bool> taken(static_cast<std::size_t>(b.shape.heads));
  double worst = 0;
  for (Index i = 0; i < a.shape.heads;
       ++i) {  // the nearest that is left: heads that are near are near to one
    double nearest = std::numeric_limits<double>::infinity();
    Index which = -1;
    for (Index j = 0; j < b.shape.heads; ++j) {
      if (taken[static_cast<std::size_t>(j)]) continue;
      const double distance = distance_of_heads(a, i, b, j);
      if (which < 0 || distance < nearest) nearest = distance, which = j;
    }
    taken[static_cast<std::size_t>(which)] = true;
    worst = std::max(worst, nearest);
  }
  return worst;
}

Proof prove_variant(const VariantData& data, const VariantOutside& outside, const VariantCandidate& candidate,
                    std::uint64_t seed, Effort& effort) {
  const VariantData thin = first_examples(data, candidate.shape.heads, kVariantEquations);
  Proof proof;
  proof.doubt = Doubt::wide_bars;
  proof.pools_mean.assign(static_cast<std::size_t>(candidate.shape.heads), false);
  for (Index i = 0; i < candidate.shape.heads; ++i) proof.heads.push_back(i);
  const VariantBars bars = variant_bars(thin, outside, candidate, VariantLabels::exact, seed, effort);
  if (effort.expired()) return {.doubt = Doubt::out_of_time};
  if (!bars.resolved) return proof;
  proof.response = bars.response;
  proof.relative = bars.relative;
  proof.heads.clear();
  for (Index i = 0; i < candidate.shape.heads; ++i) {
    const HeadBound& bar = bars.relative[static_cast<std::size_t>(i)];
    if (!(bar.theta < kWidestBar) || !(bar.w < kWidestBar)) proof.heads.push_back(i);
  }
  if (!proof.heads.empty()) return proof;
  const bool explained = candidate.held_out_error < kExplained && candidate.train_error < kExplained;
  proof.doubt = ambiguity_of(data, candidate);
  if (proof.doubt == Doubt::none)
    proof.doubt = last_doubt(
        explained, [&] { return comes_back(thin, candidate, seed, effort); }, effort);
  return proof;
}

}  // namespace headlens::recovery
