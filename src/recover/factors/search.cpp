#include "recover/factors/search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "recover/factors/merge.hpp"
#include "recover/factors/phases.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kUsualHeads = 8;  // rank d / 8 where the number of heads is not known
constexpr double kTrim = 30;      // singular values below so many errors, as shares, belong to no head
constexpr double kNoTrim = 1e-9;  // and never those above this share once all digits are there
constexpr int kMostStarts = 4;

// Do fewer singular values and heads explain the labels as well? Surplus ones slow Newton down, because the
// product of two vanishing factors is flat.
Polished reduce_factors(const Split& thin, Polished found, const RecoverOptions& options, Effort& effort) {
  const double share = std::max(kNoTrim, kTrim * found.factors.held_out_error);
  if (share > 0.5) return found;
  Factors fewer = balanced(merge_heads(found.factors, options.heads), share, share);
  const bool same =
      fewer.ranks.logits == found.factors.ranks.logits && fewer.ranks.values == found.factors.ranks.values;
  if (same) return found;
  Polished trimmed = polish(thin, fewer, {.damping = 1e-5, .ridge = 1e-8}, "reduce", effort);
  const double allowed = std::max(1e-11, 0.5 * found.factors.held_out_error);
  return trimmed.factors.held_out_error < allowed ? std::move(trimmed) : std::move(found);
}

// Newton from the end of a descent. Noise is explained by a minimum that generalises.
struct Newton {
  const Split& white;
  const RecoverOptions& options;
  Effort& effort;
  Certificate& certificate;
  Polished best = {};
  double seconds = 0;  // of all calls

  bool operator()(const Factors& descended) {
    return timed(seconds, [&] { return take_over(descended); });
  }

  bool take_over(const Factors& descended) {
    Factors start =
        timed_in(certificate, "reduce", [&] { return balanced(merge_heads(descended, options.heads)); });
    const Split thin = first_equations(white, start.ranks, kPolishEquations);
    Polished next =
        timed_in(certificate, "polish", [&] { return polish(thin, start, {}, "polish", effort); });
    for (int round = 0; round < 3 && next.factors.held_out_error > 1e-11 && !effort.expired(); ++round) {
      const double before = next.factors.held_out_error;
      next = timed_in(certificate, "reduce",
                      [&] { return reduce_factors(thin, std::move(next), options, effort); });
      if (next.factors.held_out_error > 0.5 * before) break;
    }
    next = timed_in(certificate, "reduce",
                    [&] { return reduce_factors(thin, std::move(next), options, effort); });
    const bool better =
        best.factors.heads() == 0 || next.factors.held_out_error < best.factors.held_out_error;
    if (better) best = std::move(next);
    return best.factors.held_out_error < kProof;
  }
};

}  // namespace

Index descent_heads(const RecoverOptions& options) {
  return options.heads ? (3 * *options.heads + 1) / 2 : options.max_heads;
}

Index first_rank(const Split& split, const RecoverOptions& options) {
  const Index d = split.train_x.cols;
  if (options.rank != "auto") return std::min<Index>(d, std::stoll(options.rank));
  const Index heads = options.heads.value_or(kUsualHeads);
  return std::max<Index>(1, (d + heads - 1) / heads);
}

FactorSearch search_factors(const Split& white, const RecoverOptions& options, Effort& effort,
                            Certificate& certificate) {
  const Index d = white.train_x.cols, e = white.train_y.cols;
  Index rank = first_rank(white, options);
  FactorSearch out;
  const int starts =
      options.rank == "auto" && d <= kDenseFallback ? 1 : std::min(kMostStarts, options.starts);
  for (int start = 0; start < starts && !effort.expired(); ++start) {
    ++effort.starts;
    if (start >= 2 && options.rank == "auto") rank = std::min(d, 2 * rank);
    Newton newton{white, options, effort, certificate};
    DescentResult descent = timed_in(certificate, "descend", [&] {
      return descend(white, random_factors(d, e, descent_heads(options), rank, options.seed, start), {},
                     options.seed + static_cast<std::uint64_t>(start), std::ref(newton), effort);
    });
    add_seconds(certificate, "descend", -newton.seconds);
    Factors next =
        newton.best.factors.heads() > 0 ? std::move(newton.best.factors) : std::move(descent.factors);
    certificate.trials.push_back({next.heads(), next.train_error, next.held_out_error});
    if (start == 0 || next.held_out_error < out.best.held_out_error)
      out = {std::move(next), descent.end, newton.best.status == LmStatus::minimum};
    if (out.best.held_out_error < kProof || descent.end == DescentEnd::out_of_time) break;
    if (descent.end == DescentEnd::overfits) break;  // another start would, too
  }
  return out;
}

}  // namespace headlens::recovery
