#include "recover/factors/search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/vector_space.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/content.hpp"
#include "recover/factors/groups.hpp"
#include "recover/factors/merge.hpp"
#include "recover/factors/phases.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kUsualHeads = 8;      // rank d / 8 where the number of heads is not known
constexpr double kTrim = 30;          // singular values below so many errors, as shares, belong to no head
constexpr double kNoTrim = 1e-9;      // and never those above this share once all digits are there
constexpr double kSameError = 1e-11;  // held-out errors below this are all the same
constexpr int kMostStarts = 4;
constexpr int kMostRounds = 4;  // of reducing
// Newton near a layer wins a digit per step. A step that does not halve the error means that descent has to
// come nearer first, which costs less.
constexpr int kEarlySteps = 1;
constexpr double kEarlyFactor = 0.25;  // of squares
constexpr double kEarlyGain = 0.25;    // of the error, in all
constexpr double kSameNoise = 1.1;     // held-out errors this near one another are those of one minimum
constexpr double kMoreEquations = 3;   // times, where those at hand make steps that are hard to solve
constexpr double kLost = 2;  // times the error: what merging may cost before descent makes up for that
constexpr int kMoreInner = 3, kMostInner = 5000;  // times, and where that ends
constexpr double kTrimAt = 1e-8;       // relative squares at which surplus ranks show, and are trimmed
constexpr double kMirrorHelps = 0.98;  // of the held-out error: pairs of columns that are kept mirrored
constexpr double kSuspect =
    0.02;  // share of what mirroring a pair would change that is missing in the labels
constexpr double kTieBelow = 1e-3;  // held-out error at which heads share what they were made to share

constexpr PolishOptions kOn{.damping = 1e-5, .ridge = 1e-8};  // from where Newton has been

// Held-out errors of one minimum?
bool alike(double a, double b) { return a < kSameNoise * b && b < kSameNoise * a; }

// Heads whose logits are below `size` take the plain mean: no columns of Q and K.
Factors without_faint_logits(const Factors& factors, double size) {
  std::vector<OwnHead> heads;
  for (Index i = 0; i < factors.heads(); ++i) {
    heads.push_back(own_head(factors, i));
    if (heads.back().q.cols() > 0 && theta_norm(head_of(factors, i)) < size)
      heads.back().q = Matrix<double>(factors.dim(), 0), heads.back().k = Matrix<double>(factors.dim(), 0);
  }
  return assemble(heads, factors.ranks);
}

// The second columns of a pair reflected, in Q and K: q k^* becomes its complex conjugate. A pair that hardly
// turns between the tokens of an example shows Re q k^*, which this keeps, and hardly shows Im q k^*, which
// changes its sign: no path of small steps leads from one sign to the other.
void mirror_pair(Factors& factors, Index head, Index pair) {
  const backend::HeadColumns c = backend::columns_of(factors.ranks)[static_cast<std::size_t>(head)];
  const Index second = factors.ranks.rotary->columns(pair, c.logits).second;
  for (Index i = 0; i < factors.dim(); ++i)
    for (const Index first : {c.q, c.k}) factors.values.parameters(i, first + second) *= -1;
}

class Newton final : public Successor {
 public:
  Newton(const Split& white, const RecoverOptions& options, Effort& effort, Certificate& certificate,
         FactorSearch& found)
      : white_(white),
        few_(few_held_out(white)),
        options_(options),
        effort_(effort),
        certificate_(certificate),
        found_(found) {}

  void look(const Factors& descended) override {
    if (found_.best.heads() == 0) found_.best = copy_of(descended);
  }
  bool take_over(const Factors& descended, Try which) override {
    return timed(seconds_, [&] { return polish_from(descended, which); });
  }
  std::optional<Factors> with_fresh_heads(const Factors& descended) override {
    const Factors found = merged(descended, {});
    const Index places = descended.heads() - found.heads();
    if (places == 0) return std::nullopt;
    return with_silent_heads(
        found, random_factors(found.dim(), found.outputs(), places, first_rank(white_, options_),
                              options_.seed, kMostStarts + effort_.starts));
  }
  std::optional<Factors> with_heads_asked_for(const Factors& descended) override {
    if (!options_.heads || layer_heads(descended) <= *options_.heads) return std::nullopt;
    Factors fewer = merged(descended, options_.heads);
    fewer.held_out_error = error_on_few(fewer);
    const bool lost = fewer.held_out_error > kLost * descended.held_out_error;
    return lost ? std::optional(std::move(fewer)) : std::nullopt;
  }
  double seconds() const { return seconds_; }  // of all calls

 private:
  bool polish_from(const Factors& descended, Try which) {
    Polished next = merge_and_polish(descended, options_.heads, which);
    // Heads that do not tell the same were made one, and Newton does not make up for what that lost. From all
    // of them, which are one shows when there are more digits.
    if (options_.heads && !(next.factors.held_out_error < descended.held_out_error))
      next = merge_and_polish(descended, {}, which);
    if (!(next.factors.held_out_error < kEarlyGain * descended.held_out_error) && which == Try::early)
      return false;
    next = share(std::move(next));
    for (int round = 0; round < kMostRounds && !effort_.expired(); ++round) {
      const double before = next.factors.held_out_error;
      next = timed_in(certificate_, "reduce", [&] { return reduce(std::move(next)); });
      keep(next, Try::last);
      if (!(next.factors.held_out_error < 0.5 * before)) break;
    }
    return next.factors.held_out_error < kProof;
  }
  Polished merge_and_polish(const Factors& descended, std::optional<Index> heads, Try which) {
    const Factors start = timed_in(certificate_, "reduce", [&] {
      return trimmed(balanced(merge(descended, heads), 0, 0, effort_.threads()));
    });
    Polished next =
        timed_in(certificate_, "polish", [&] { return newton(start, which, descended.held_out_error); });
    keep(next, which);
    return next;
  }
  // Pairs of columns that turn slowly come apart only once all else is there, which Newton does, in small
  // steps at first. Where it ends without the heads, pairs that may be mirrored are.
  Polished newton_with_mirrors(const Factors& start, const PolishOptions& options) {
    Polished next = polish_enough(start, options, "polish");
    while (next.status != LmStatus::converged && !effort_.expired()) {
      const Factors other = mirrored(next.factors);
      if (other.heads() == 0) break;
      Polished tried = polish_enough(other, options, "mirror");
      if (!(tried.factors.held_out_error < kMirrorHelps * next.factors.held_out_error)) break;
      next = std::move(tried);
    }
    return next;
  }
  // Heads that share keys and values are made to, once they are about right.
  Polished share(Polished found) {
    return timed_in(certificate_, "reduce", [&] {
      const Index groups = options_.kv_groups.value_or(0);
      if (groups == 0 || layer_heads(found.factors) % groups != 0 || effort_.expired())
        return std::move(found);
      Polished shared = polish_enough(tied(found.factors, groups), kOn, "tie");
      const double enough = std::max(kTieBelow, kSameNoise * found.factors.held_out_error);
      return shared.factors.held_out_error < enough ? std::move(shared) : std::move(found);
    });
  }
  // The layer with all pairs of columns mirrored that what is left of the labels points to: a pair that turns
  // faster may hide most of what the wrong sign costs. No heads where there are none.
  Factors mirrored(const Factors& factors) {
    const auto labels = [&](const Factors& of) {
      return effort_.context().machine.apply_factors(few_.held(), of.ranks, of.values, effort_.context());
    };
    const Matrix<double> now = labels(factors);
    Matrix<double> left = copy_of<double>(few_.held_y);
    add(-1.0, now, left);
    hide_missing(few_.held_seen, left);
    Factors out = copy_of(factors), trial = copy_of(factors);
    bool any = false;
    for (Index head = 0; head < layer_heads(factors); ++head)
      for (Index pair = 0; pair < head_of(factors, head).pairs(); ++pair) {
        mirror_pair(trial, head, pair);
        Matrix<double> change = labels(trial);
        mirror_pair(trial, head, pair);
        add(-1.0, now, change);
        hide_missing(few_.held_seen, change);
        if (!(inner_product(left, change) > kSuspect * squared_norm(change))) continue;
        mirror_pair(out, head, pair);
        any = true;
      }
    return any ? std::move(out) : Factors{};
  }
  Factors merged(const Factors& factors, std::optional<Index> heads) {
    return timed(seconds_,
                 [&] { return timed_in(certificate_, "reduce", [&] { return merge(factors, heads); }); });
  }
  Factors merge(const Factors& factors, std::optional<Index> heads) {
    return merge_heads(factors, heads, [&](const Factors& fewer) { return error_on_few(fewer); });
  }
  // Ranks usually add up to d. Where the number of heads was not known, their first rank was a guess.
  Factors trimmed(Factors factors) {
    const Index d = factors.dim(), usual = (d + layer_heads(factors) - 1) / layer_heads(factors);
    if (options_.heads || options_.rank != "auto" || usual >= first_rank(white_, options_)) return factors;
    Factors fewer = cut_to(factors, usual + (options_.bias ? 1 : 0));
    return error_on_few(fewer) < kSameNoise * error_on_few(factors) ? std::move(fewer) : std::move(factors);
  }
  double error_on_few(const Factors& factors) { return error_on(few_.held(), factors, effort_.context()); }
  // To the digits that show surplus ranks. An early try that wins little at first is given up; one that wins
  // much and then stops has come to the noise, and goes on until that is certain.
  Polished newton(const Factors& start, Try which, double error) {
    PolishOptions options{.tolerance = kTrimAt};
    if (start.ranks.rotary) return newton_with_mirrors(start, options);
    if (which == Try::last) return polish_enough(start, options, "polish");
    options.early = true;
    options.stall_steps = kEarlySteps;
    options.stall_factor = kEarlyFactor;
    Polished next = polish_enough(start, options, "polish");
    const bool stopped = next.status == LmStatus::stalled && next.factors.held_out_error < kEarlyGain * error;
    return stopped ? newton(next.factors, Try::last, error) : std::move(next);
  }
  // Do fewer singular values and heads explain the labels as well? Surplus ones slow Newton down, because the
  // product of two vanishing factors is flat. The last digits are found with those that are left.
  Polished reduce(Polished found) {
    const double share = std::max(kNoTrim, kTrim * found.factors.held_out_error);
    if (!(share < 0.5)) return found;
    const Factors fewer = fewer_heads(found.factors, share);
    const bool same =
        fewer.ranks.logits == found.factors.ranks.logits && fewer.ranks.values == found.factors.ranks.values;
    const bool done = found.factors.held_out_error < kSameError || found.status == LmStatus::minimum;
    if (same && done) return found;
    Polished trimmed = polish_enough(fewer, kOn, "reduce");
    const double before = found.factors.held_out_error;
    if (trimmed.factors.held_out_error < std::max(kSameError, 0.5 * before)) return trimmed;
    if (found.status != LmStatus::converged) return found;
    // Newton stopped where surplus ranks show, and they are none, or noise comes first: on with all of them.
    Polished all = same ? std::move(trimmed) : polish_enough(found.factors, kOn, "reduce");
    return all.factors.held_out_error < kSameNoise * before ? std::move(all) : std::move(found);
  }
  // Heads that share keys and values have their number already.
  Factors fewer_heads(const Factors& factors, double share) {
    if (factors.ranks.shared > 1) return balanced(factors, share, share, effort_.threads());
    return balanced(merge(without_faint_logits(factors, share), options_.heads), share, share,
                    effort_.threads());
  }
  // On as many equations as make the steps easy to solve; where all are not enough, with more iterations.
  Polished polish_enough(const Factors& start, PolishOptions options, const std::string& phase) {
    const Split thin = first_equations(white_, start.ranks, found_.needed.equations);
    const Index rows = thin.train_x.rows;
    effort_.reserve(polish_bytes(white_, start.ranks, static_cast<double>(rows), effort_) +
                        descent_bytes(white_, start.ranks, effort_),
                    "the recovery");
    const bool all = rows == white_.train_x.rows;
    options.max_inner = found_.needed.inner;
    options.ends_capped = !all || (!options.early && found_.needed.inner < kMostInner);
    Polished out = polish(thin, start, options, phase, effort_);
    if (out.status != LmStatus::capped) return out;
    if (all)
      found_.needed.inner *= kMoreInner;
    else
      found_.needed.equations *= kMoreEquations;
    return polish_enough(out.factors, options, phase);
  }
  // Of two that are at rounding the later one has fewer heads or ranks. Noise may let an early try end a
  // little below a whole one; that the whole one won nothing more then tells of both.
  void keep(const Polished& next, Try which) {
    const double best = std::max(found_.best.held_out_error, kSameError), error = next.factors.held_out_error;
    const bool shares = next.factors.ranks.shared > 1, shared = found_.best.ranks.shared > 1;
    const bool better = !polished_ || (shares && !shared) || (shares == shared && error <= best);
    const bool ended =
        next.status == LmStatus::minimum || (next.status == LmStatus::stalled && which == Try::last);
    const bool same = polished_ && alike(error, best);
    found_.at_minimum = (ended && (better || same)) || (found_.at_minimum && (!better || same));
    if (!better) return;
    polished_ = true;
    found_.best = copy_of(next.factors);
  }

  const Split& white_;
  const Split few_;
  const RecoverOptions& options_;
  Effort& effort_;
  Certificate& certificate_;
  FactorSearch& found_;
  double seconds_ = 0;
  bool polished_ = false;
};

}  // namespace

Index descent_heads(const RecoverOptions& options) {
  return options.heads ? (3 * *options.heads + 1) / 2 : options.max_heads;
}

bool shares_as_asked(const FactorSearch& search, const RecoverOptions& options) {
  return !options.kv_groups || layer_heads(search.best) == *options.kv_groups * search.best.ranks.shared;
}

bool overfits(const FactorSearch& search) {
  return search.end == DescentEnd::overfits || search.best.train_error < 0.5 * search.best.held_out_error;
}

Index first_rank(const Split& split, const RecoverOptions& options) {
  const Index d = split.train_x.cols;
  const Index bias = options.bias ? 1 : 0;  // u need not lie in the columns of K
  if (options.rank != "auto") return std::min<Index>(d, std::stoll(options.rank) + bias);
  const Index heads = options.heads.value_or(kUsualHeads);
  return std::max<Index>(1, (d + heads - 1) / heads) + bias;
}

void search_factors(const Split& white, const RecoverOptions& options, Effort& effort,
                    Certificate& certificate, FactorSearch& found) {
  const Index d = white.train_x.cols, e = white.train_y.cols;
  Index rank = first_rank(white, options);
  const int starts = std::min(kMostStarts, options.starts);
  for (int start = 0; start < starts && !effort.expired(); ++start) {
    ++effort.starts;
    if (start >= 2 && options.rank == "auto") rank = std::min(d, 2 * rank);
    FactorSearch next;
    next.enough = found.enough;
    next.needed = found.needed;
    Newton newton(white, options, effort, certificate, start == 0 ? found : next);
    const DescentResult descent = timed_in(certificate, "descend", [&] {
      return descend(
          white,
          with_variant(random_factors(d, e, descent_heads(options), rank, options.seed, start), options), {},
          options.seed + static_cast<std::uint64_t>(start), newton, effort);
    });
    add_seconds(certificate, "descend", -newton.seconds());
    const Factors& reached = (start == 0 ? found : next).best;
    if (start > 0)
      certificate.trials.push_back({layer_heads(reached), reached.train_error, reached.held_out_error});
    (start == 0 ? found : next).end = descent.end;
    const bool same_noise = start > 0 && found.at_minimum && next.at_minimum &&
                            alike(found.best.held_out_error, next.best.held_out_error);
    if (start > 0 && next.best.held_out_error < found.best.held_out_error) found = std::move(next);
    if (found.best.held_out_error < found.enough || descent.end == DescentEnd::out_of_time) break;
    if (same_noise) break;                           // two starts have come to it: no other would do better
    if (descent.end == DescentEnd::overfits) break;  // another start would, too
  }
}

}  // namespace headlens::recovery
