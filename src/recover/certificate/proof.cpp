#include "recover/certificate/proof.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/distinct.hpp"
#include "recover/certificate/mirror.hpp"
#include "recover/certificate/swapped.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/whiteness.hpp"
#include "recover/grow.hpp"
#include "recover/left_over.hpp"
#include "recover/polish.hpp"
#include "recover/reduce.hpp"

namespace headlens::recovery {
namespace {

constexpr double kFaintLogits = 1e-6;  // or an error of Theta that moves no logit by more than this
constexpr double kTightEnough = 1e-9;  // relative bars below this need no further digit
constexpr double kNoNoise = 1e-6;      // relative residuals below this are hardly ever noise of the labels
constexpr Index kSmall = 400;          // entries of Theta whose factor takes a few hundredths of a second
constexpr Index kCheap = 120;          // entries of Theta with which a few dozen factorisations take no time
constexpr double kWeakNudge = 1e-4, kNudgeBars = 30;
constexpr double kReturnedBars = 3;  // bars: as far as two ends of the same minimum may lie apart

double norm_of_head(const Matrix<double>& theta, Index i) {
  const Index d = theta.rows();
  return std::sqrt(squared_norm(theta.view().block(0, i * d, d, d)));
}
double norm_of_w(const Linearisation& at, Index i) {
  const Index d = at.theta.rows();
  return std::sqrt(squared_norm(at.w.view().block(i * d, 0, d, at.w.cols())));
}

Candidate as_candidate(const Split& split, const Linearisation& at, int threads) {
  Candidate out{copy_of(at.theta), copy_of(at.w), std::sqrt(at.squares / squared_norm(split.train_y)), 1};
  out.held_out_error = held_out_error(split, out.theta, out.w, threads);
  return out;
}

// Bars of every head as shares of its size, in the units of the weights.
std::vector<HeadBound> relative_bounds(const Linearisation& at, const Bounds& bounds,
                                       const std::vector<double>& weights) {
  const Index d = at.theta.rows();
  std::vector<HeadBound> out;
  for (std::size_t i = 0; i < bounds.heads.size(); ++i) {
    double theta = 0, w = 0;
    for (Index a = 0; a < d; ++a) {
      const double weight = weights[static_cast<std::size_t>(a)];
      for (Index b = 0; b < d; ++b)
        theta += std::pow(
            weight * weights[static_cast<std::size_t>(b)] * at.theta(a, static_cast<Index>(i) * d + b), 2);
      for (Index c = 0; c < at.w.cols(); ++c)
        w += std::pow(weight * at.w(static_cast<Index>(i) * d + a, c), 2);
    }
    out.push_back({relative_to_truth(bounds.heads[i].theta, std::sqrt(theta)),
                   relative_to_truth(bounds.heads[i].w, std::sqrt(w))});
  }
  return out;
}

// The largest share, of any head's size, by which the bars say it may be off.
double widest(const std::vector<HeadBound>& relative) {
  double out = 0;
  for (const HeadBound& head : relative) out = std::max({out, head.theta, head.w});
  return out;
}

// Do heads pushed along the weakest direction come back?
bool comes_back(const Split& dense, const Linearisation& at, const Bounds& bounds, double sign,
                Effort& effort) {
  const Index d = at.theta.rows(), m = at.theta.cols() / d;
  double reach = kWeakNudge;  // in units of each head's own size, as the weakest direction is
  for (Index i = 0; i < m; ++i) {
    const double size = norm_of_head(at.theta, i), bar = bounds.plain[static_cast<std::size_t>(i)].theta;
    if (bar < size) reach = std::max(reach, kNudgeBars * bar / size);
  }
  Matrix<double> theta = copy_of(at.theta);
  add(sign * std::min(reach, 0.5), bounds.weakest, theta);
  const std::optional<Linearisation> end = polish(dense, theta, "nudge", effort);
  if (!end) return false;
  for (Index i = 0; i < m; ++i) {
    double theta_squares = 0, w_squares = 0;
    for (Index a = 0; a < d; ++a) {
      for (Index b = 0; b < d; ++b)
        theta_squares += std::pow(end->theta(a, i * d + b) - at.theta(a, i * d + b), 2);
      for (Index c = 0; c < at.w.cols(); ++c)
        w_squares += std::pow(end->w(i * d + a, c) - at.w(i * d + a, c), 2);
    }
    const HeadBound& bar = bounds.plain[static_cast<std::size_t>(i)];
    const double rounding = 1e-14;
    if (std::sqrt(theta_squares) > kReturnedBars * bar.theta + rounding * norm_of_head(at.theta, i))
      return false;
    if (std::sqrt(w_squares) > kReturnedBars * bar.w + rounding * norm_of_w(at, i)) return false;
  }
  return true;
}

// Small problems always; large ones where heads that are nearly parallel or faint make the factor worth its
// time.
bool worth_a_factor(const Split& split, const Candidate& candidate) {
  const Index d = split.train_x.cols;
  return can_be_dense(split, candidate.heads()) &&
         (candidate.heads() * d * d <= kSmall || looks_degenerate(candidate));
}

std::vector<Index> all_heads(Index m) {
  std::vector<Index> out;
  for (Index i = 0; i < m; ++i) out.push_back(i);
  return out;
}

// A head whose Theta is zero within its bar takes the plain mean: Theta = 0 is the simplest layer within it.
std::vector<bool> set_mean_pooling(const Split& dense, const Bounds& bounds, Linearisation& at,
                                   Effort& effort) {
  const Index d = at.theta.rows(), m = at.theta.cols() / d;
  std::vector<bool> pools(static_cast<std::size_t>(m));
  Matrix<double> theta = copy_of(at.theta);
  bool any = false;
  for (Index i = 0; i < m; ++i) {
    const double bar = bounds.plain[static_cast<std::size_t>(i)].theta;
    if (!(bar < kFaintLogits && norm_of_head(at.theta, i) < bar)) continue;
    for (Index a = 0; a < d; ++a) std::fill_n(theta.view().row(a) + i * d, d, 0.0);
    pools[static_cast<std::size_t>(i)] = any = true;
  }
  if (!any) return pools;
  std::optional<Linearisation> zero = linearise(dense, theta, effort.threads());
  if (!zero || std::sqrt(zero->squares) > kReturnedBars * bounds.label_error)
    return std::vector<bool>(static_cast<std::size_t>(m));
  at = std::move(*zero);
  return pools;
}

// Heads whose error may be as large as their size.
std::vector<Index> wide_heads(const Linearisation& at, const Bounds& bounds,
                              const std::vector<HeadBound>& relative) {
  std::vector<Index> out;
  for (std::size_t i = 0; i < relative.size(); ++i) {
    const auto head = static_cast<Index>(i);
    const double theta = bounds.plain[i].theta;
    const bool known = (theta < kWidestBar * norm_of_head(at.theta, head) || theta < kFaintLogits) &&
                       bounds.plain[i].w < kWidestBar * norm_of_w(at, head) && relative[i].w < 1 &&
                       relative[i].theta <= 1;
    if (!known) out.push_back(head);
  }
  return out;
}

}  // namespace

// The true size may be smaller than the found one by as much as the bar.
double relative_to_truth(double error, double size) {
  return error < size ? error / (size - error) : std::numeric_limits<double>::infinity();
}

Candidate last_digits(const Split& split, Candidate candidate, Effort& effort) {
  if (effort.expired()) return candidate;
  const LmOptions last{.ridge = 0, .mu = 1e-8, .tolerance = 1e-30, .max_steps = 40, .stall_steps = 6};
  Candidate next = solve_from(split, copy_of(candidate).theta, last, "polish", effort);
  return next.train_error < candidate.train_error ? std::move(next) : std::move(candidate);
}

Candidate sharpen(const Split& split, Candidate candidate, bool may_add_heads, std::uint64_t seed,
                  Effort& effort) {
  if (may_add_heads && is_beyond_factors(split, candidate.heads()) &&
      !explained(split, candidate, effort.threads())) {
    // The last digits first: what conjugate gradients leave of them would look like another head.
    candidate = sharpen(split, std::move(candidate), false, seed, effort);
    if (explained(split, candidate, effort.threads())) return candidate;
    candidate = grow_large(split, std::move(candidate), seed, effort);
  }
  if (!can_be_dense(split, candidate.heads())) return candidate;
  if (!worth_a_factor(split, candidate)) {
    if (explained(split, candidate, effort.threads())) return candidate;
    candidate = last_digits(split, std::move(candidate), effort);
    if (explained(split, candidate, effort.threads())) return candidate;
  }
  const Split dense = dense_examples(split, candidate.heads());
  const std::vector<double> plain(static_cast<std::size_t>(candidate.theta.rows()), 1);
  std::optional<Linearisation> at = linearise(dense, candidate.theta, effort.threads());
  if (!at) return candidate;
  if (explained(*at) && widest(relative_bounds(*at, bound_errors(*at, plain), plain)) < kTightEnough)
    return candidate;
  at = polish(dense, std::move(*at), "polish", effort);
  // The test for noise is cheap but may miss structure; where another head costs little, that is tried
  // instead.
  const bool costly = (candidate.heads() + 1) * split.train_x.cols * split.train_x.cols > kCheap;
  const bool may_be_noise = costly && at->squares > kNoNoise * kNoNoise * squared_norm(dense.train_y);
  may_add_heads = may_add_heads && !explained(*at) &&
                  !(may_be_noise && residual_whiteness(split, as_candidate(split, *at, effort.threads()),
                                                       seed, effort.threads())
                                        .is_noise());
  if (may_add_heads)
    if (std::optional<Linearisation> more = grow(split, *at, seed, effort)) at = std::move(more);
  return as_candidate(split, *at, effort.threads());
}

Ambiguity find_ambiguity(const Split& split, const AmbiguityTest& test, const Candidate& candidate) {
  if (std::vector<Index> heads = mirrored_heads(test.mirrored, candidate, test.label_error, test.bounds);
      !heads.empty())
    return {Doubt::mirror, std::move(heads)};
  if (std::vector<Index> heads = swappable_heads(test.swapped, candidate, test.bounds); !heads.empty())
    return {Doubt::few_tokens, std::move(heads)};
  if (!means_are_seen(split)) return {Doubt::mean_unseen, {}};
  if (!held_out_is_fresh(split, candidate.heads())) return {Doubt::few_distinct, {}};
  return {};
}

Doubt last_doubt(bool explained, const std::function<bool()>& comes_back, const Effort& effort) {
  if (!explained) return Doubt::structure;
  if (!comes_back()) return effort.expired() ? Doubt::out_of_time : Doubt::another_layer;
  return Doubt::none;  // only here: every test has been passed
}

Proof prove(const Split& split, Candidate& candidate, const std::vector<double>& weights, std::uint64_t seed,
            Effort& effort) {
  Proof proof;
  if (!worth_a_factor(split, candidate)) {
    proof = prove_large(split, candidate, weights, seed, effort);
    const bool proven = proof.doubt == Doubt::none && widest(proof.relative) < kTightEnough;
    if (proven || !can_be_dense(split, candidate.heads())) return proof;
    proof = {};
  }
  const Index m = candidate.heads();
  const Split dense = dense_examples(split, m);
  std::optional<Linearisation> at = linearise(dense, candidate.theta, effort.threads());
  if (!at) return {.doubt = Doubt::wide_bars, .heads = all_heads(m)};
  Bounds bounds = bound_errors(*at, weights);
  proof.pools_mean = set_mean_pooling(dense, bounds, *at, effort);
  candidate = as_candidate(split, *at, effort.threads());
  proof.relative = relative_bounds(*at, bounds, weights);
  proof.response =
      bounds.smallest_singular_value * std::sqrt(squared_norm(at->theta) / squared_norm(dense.train_y));
  proof.shares = bounds.shares;
  for (std::size_t i = 0; i < proof.relative.size(); ++i)
    if (proof.pools_mean[i]) proof.relative[i].theta = 1;  // Theta is zero or all of it is error
  proof.heads = wide_heads(*at, bounds, proof.relative);
  proof.doubt = Doubt::wide_bars;
  if (!proof.heads.empty()) return proof;
  Ambiguity other = find_ambiguity(split, {dense, split, bounds.label_error, bounds.plain}, candidate);
  if (other.doubt != Doubt::none) {
    proof.doubt = other.doubt;
    proof.heads = std::move(other.heads);
    return proof;
  }
  if (!explained(*at) || !explained(split, candidate, effort.threads())) {
    proof.doubt = Doubt::structure;
  } else if (!comes_back(dense, *at, bounds, 1, effort) || !comes_back(dense, *at, bounds, -1, effort)) {
    proof.doubt = effort.expired() ? Doubt::out_of_time : Doubt::another_layer;
    for (Index i = 0; i < m; ++i)
      if (norm_of_head(bounds.weakest, i) > 0.1 * norm_of_head(at->theta, i)) proof.heads.push_back(i);
  } else {
    proof.doubt = Doubt::none;  // only here: every test has been passed
  }
  return proof;
}

}  // namespace headlens::recovery
