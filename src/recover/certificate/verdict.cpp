#include "recover/certificate/verdict.hpp"

#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "headlens/inspect.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/error_bars.hpp"
#include "recover/certificate/weakest_direction.hpp"

namespace headlens::recovery {

double examples_per_unknown(const Split& split, Index heads) {
  const double d = static_cast<double>(split.train_x.cols), e = static_cast<double>(split.train_y.cols);
  return static_cast<double>(split.train_x.rows) * e / (static_cast<double>(heads) * d * (d + e));
}

Split first_examples(const Split& split, Index heads, double equations) {
  const double share = equations / examples_per_unknown(split, heads);
  if (share >= 0.5) return split;
  const Index k = split.tokens;
  const auto rows = static_cast<Index>(share * static_cast<double>(split.train_x.rows / k)) * k;
  Split thin = split;
  thin.train_x = split.train_x.block(0, 0, rows, split.train_x.cols);
  thin.train_y = split.train_y.block(0, 0, rows, split.train_y.cols);
  return thin;
}

bool generalises(const Split& split, const Candidate& candidate) {
  const double c = examples_per_unknown(split, candidate.heads());
  return c > 1 && candidate.held_out_error < 2 * std::sqrt((c + 1) / (c - 1)) * candidate.train_error;
}

RecoveryStatus verdict(const Split& split, const Candidate& candidate, const Challenge& challenge,
                       const Proof& proof, bool expired) {
  if (squared_norm(split.train_y) == 0)
    return RecoveryStatus::not_identified;  // the zero layer has no heads to find
  const double c = examples_per_unknown(split, candidate.heads());
  if (candidate.held_out_error <= kProof) {
    if (proof.doubt == Doubt::none) return RecoveryStatus::recovered;
    if (proof.doubt == Doubt::few_distinct) return RecoveryStatus::needs_more_examples;
    return expired ? RecoveryStatus::stalled : RecoveryStatus::not_identified;
  }
  if (c < kFewestEquations) return RecoveryStatus::needs_more_examples;
  const bool plausible = generalises(split, candidate);
  const bool noise_floor =
      plausible && candidate.held_out_error < 0.9 && !challenge.more_heads_help && challenge.leaves_noise;
  if (expired) return RecoveryStatus::stalled;  // a challenge that was cut short may look as if it were met
  if (noise_floor && challenge.agrees && challenge.returns && challenge.bars_tell)
    return RecoveryStatus::approximate;
  if (challenge.more_heads_help && challenge.too_few_to_ask) return RecoveryStatus::needs_more_examples;
  return plausible ? RecoveryStatus::not_identified : RecoveryStatus::needs_more_examples;
}

void describe_proven(const Proof& proof, const Candidate& candidate, const Units& units,
                     Certificate& certificate) {
  if (proof.relative.empty()) return;
  const AttentionLayer layer = from_units(units, unpack_layer(candidate.theta, candidate.w));
  certificate.per_head.clear();
  for (Index i = 0; i < layer.heads(); ++i) {
    const auto head = static_cast<std::size_t>(i);
    const HeadSummary summary = summarise_head(layer, i);
    certificate.per_head.push_back({summary.scale, summary.effective_rank, summary.w_norm,
                                    proof.relative[head].theta, proof.relative[head].w,
                                    proof.pools_mean[head]});
  }
  certificate.smallest_singular_value = proof.response;
  certificate.weakest_shares = proof.shares;
}

std::vector<Index> heads_beyond(const Certificate& certificate, double bar) {
  std::vector<Index> out;
  for (std::size_t i = 0; i < certificate.per_head.size(); ++i)
    if (!(std::max(certificate.per_head[i].theta_bar, certificate.per_head[i].w_bar) < bar))
      out.push_back(static_cast<Index>(i));
  return out;
}

bool describe_noisy(const Split& split, const Candidate& candidate, const Units& units, std::uint64_t seed,
                    Effort& effort, Certificate& certificate) {
  const AttentionLayer scaled = unpack_layer(candidate.theta, candidate.w);
  const AttentionLayer layer = from_units(units, scaled);
  const std::unique_ptr<backend::LayerProblem> problem = pose(split, candidate.heads(), effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(copy_of(candidate.theta), 0, *point);
  problem->linearise(*point);
  if (!point->finite) return false;
  const auto stop = [&] { return effort.must_stop(); };
  const ErrorBars bars = error_bars(*problem, *point, ResidualIs::noise, seed, stop);
  const WeakestDirection weakest = weakest_direction(*problem, *point, bars.draws, stop);
  effort.inner += bars.inner + weakest.products;
  if (stop()) return false;  // bars of solves that were cut short are too small
  certificate.noise = bars.noise;
  certificate.smallest_singular_value = weakest.response;
  if (!weakest.directions.empty()) certificate.weakest_shares = head_shares(weakest.directions[0]);
  for (Index i = 0; i < layer.heads(); ++i) {
    const HeadSummary head = summarise_head(layer, i), own = summarise_head(scaled, i);
    const HeadBars& bar = bars.heads[static_cast<std::size_t>(i)];
    certificate.per_head.push_back({head.scale, head.effective_rank, head.w_norm,
                                    bar.theta / std::max(own.scale, 1e-300),
                                    bar.w / std::max(own.w_norm, 1e-300)});
  }
  return true;
}

}  // namespace headlens::recovery
