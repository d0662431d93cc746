#include "recover/variants/variant_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr int kFewStarts = 2;         // for a number of heads that may be too small
constexpr double kMirrorBelow = 0.5;  // held-out errors at which the heads are about right
constexpr double kMirrorHelps = 0.8;
constexpr double kSameError = 0.01;

// Logits of deviation 1/2: entries of Theta' of 0.5 / d, of Q and K of 0.7 / (d^2 r)^(1/4).
Matrix<double> random_parameters(const VariantShape& shape, std::uint64_t seed, int start) {
  Matrix<double> out(shape.rows(), shape.columns());
  Stream stream(seed, "start of a variant", static_cast<std::uint64_t>(start));
  const double d = static_cast<double>(shape.dim), r = static_cast<double>(shape.rank);
  const double entry = shape.rotary() ? 0.7 / std::pow(d * d * r, 0.25) : 0.5 / d;
  for (Index i = 0; i < out.rows() * out.cols(); ++i) out.data()[i] = entry * stream.normal();
  return out;
}

Matrix<double> left_over(const backend::LayerExamples& given, const VariantCandidate& c, int threads) {
  Matrix<double> left =
      apply_variant(c.shape, c.parameters, c.w, given.x, given.tokens, given.lengths, threads);
  for (Index i = 0; i < given.y.rows; ++i)
    for (Index j = 0; j < given.y.cols; ++j) left(i, j) = given.y(i, j) - left(i, j);
  hide_missing(given.seen, left);
  return left;
}

double held_out_error_of(const VariantData& data, const VariantCandidate& c, int threads) {
  const double scale = squared_norm(data.split.held_y);
  if (scale == 0) return 1;
  return std::sqrt(squared_norm(left_over(data.split.held(), c, threads)) / scale);
}

// All examples, and every digit that they have.
VariantCandidate finish(const VariantData& data, VariantCandidate found, Effort& effort) {
  const LmOptions last{.ridge = 0, .mu = 1e-8, .tolerance = 1e-30, .max_steps = 40, .stall_steps = 6};
  const VariantShape shape = found.shape;
  VariantCandidate next =
      solve_from(data, shape, headlens::copy_of(found.parameters), last, "polish", effort);
  return next.held_out_error <= std::max(found.held_out_error, 1e-13) ? std::move(next) : std::move(found);
}

// The pair of columns with its second columns reflected. A pair that hardly turns between the tokens of an
// example shows q_1 k_1^T + q_2 k_2^T, which this keeps, and hardly shows q_1 k_2^T - q_2 k_1^T, which
// changes its sign: no path of small steps leads from one sign to the other.
Matrix<double> mirrored(const VariantCandidate& c, Index head, Index pair) {
  Matrix<double> out = headlens::copy_of(c.parameters);
  const Index second = c.shape.variant.rotary->columns(pair, c.shape.rank).second;
  for (Index q = 0; q < c.shape.dim; ++q)
    for (const Index part : {head, c.shape.heads + head}) out(q, part * c.shape.rank + second) *= -1;
  return out;
}

// Mirrors the pairs of all heads in turn, slowest first, and keeps what explains more, until nothing does.
VariantCandidate mirror_pairs(const VariantData& data, VariantCandidate found, Effort& effort) {
  if (!found.shape.rotary()) return found;
  const LmOptions lm{.ridge = 1e-8, .mu = 1e-4, .max_steps = 40, .stall_steps = 6};
  const Index pairs = found.shape.variant.rotary->pairs(found.shape.rank);
  Index since = 0;  // tries without a gain
  for (Index pair = pairs - 1; since<pairs * found.shape.heads; pair = pair> 0 ? pair - 1 : pairs - 1)
    for (Index head = 0; head < found.shape.heads; ++head, ++since) {
      if (!(found.held_out_error > kProof && found.held_out_error < kMirrorBelow) || effort.must_stop())
        return found;
      VariantCandidate next =
          solve_from(data, found.shape, mirrored(found, head, pair), lm, "mirror", effort);
      if (!(next.held_out_error < kMirrorHelps * found.held_out_error)) continue;
      found = std::move(next);
      since = -1;
    }
  return found;
}

VariantCandidate solve_start(const VariantData& data, Index heads, std::uint64_t seed, int start,
                             Effort& effort) {
  const VariantShape shape = data.shape(heads);
  const VariantData thin = first_examples(data, heads, kVariantEquations);
  VariantCandidate found =
      solve_from(thin, shape, random_parameters(shape, seed, start), {}, "search", effort);
  found = mirror_pairs(thin, std::move(found), effort);
  if (thin.split.train_x.rows == data.split.train_x.rows) return found;
  return solve_from(data, shape, std::move(found.parameters), {.ridge = 1e-14, .mu = 1e-5, .stall_steps = 8},
                    "search", effort);
}

}  // namespace

Index rotary_rank(const RecoverOptions& options, Index dim) {
  if (options.rotary == "none") return 0;
  if (options.rank == "full") return dim;
  if (options.rank != "auto") return std::min<Index>(dim, std::stoll(options.rank));
  return std::max<Index>(2, dim / options.heads.value_or(1));
}

void require_turned_columns(const RecoverOptions& options, Index dim) {
  const std::optional<Rotary> rotary = options.variant().rotary;
  require(!rotary || options.heads || options.rank != "auto", option("rotary"),
          ": give the number of heads with ", option("heads"), ", or the columns of Q and K with ",
          option("rank"));
  require(!rotary || rotary->pairs(rotary_rank(options, dim)) > 0, option("rank"), ": ",
          rotary_rank(options, dim), " columns of Q and K have no pair to turn");
}

VariantData variant_data(const Split& white, const RecoverOptions& options, Index dim) {
  VariantData out{white};
  out.variant = options.variant();
  out.rank = rotary_rank(options, dim);
  return out;
}

VariantCandidate copy_of(const VariantCandidate& c) {
  return {
      c.shape,     headlens::copy_of(c.parameters), headlens::copy_of(c.w), c.train_error, c.held_out_error,
      c.at_minimum};
}

double variant_unknowns(const VariantShape& shape, Index outputs) {
  return static_cast<double>(shape.rows() * shape.columns() + shape.features() * outputs);
}

double equations_per_unknown(const VariantData& data, Index heads) {
  return data.split.labels() / variant_unknowns(data.shape(heads), data.split.train_y.cols);
}

VariantData first_examples(const VariantData& data, Index heads, double equations) {
  const double share = equations / equations_per_unknown(data, heads);
  if (share >= 0.5) return data;
  const Index k = data.split.tokens;
  const auto examples =
      std::max<Index>(1, static_cast<Index>(share * static_cast<double>(data.split.train_x.rows / k)));
  VariantData thin = data;
  thin.split = data.split.first_rows(examples * k);
  return thin;
}

std::unique_ptr<backend::LayerProblem> pose(const VariantData& data, const VariantShape& shape,
                                            const Effort& effort) {
  return effort.context().machine.make_variant_problem(data.split.train(), shape, effort.context());
}

Matrix<double> residual_of(const VariantData& data, const VariantCandidate& c, int threads) {
  return left_over(data.split.train(), c, threads);
}

VariantCandidate solve_from(const VariantData& data, const VariantShape& shape, Matrix<double> parameters,
                            const LmOptions& options, const std::string& phase, Effort& effort) {
  const std::unique_ptr<backend::LayerProblem> problem = pose(data, shape, effort);
  std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  point->parameters = std::move(parameters);
  const LmResult result = minimise(
      *problem, point, options, [&] { return effort.must_stop(); },
      [&](int step, double squares) {
        effort.trace.push_back({phase, shape.heads, effort.seconds(), std::sqrt(squares), step, {}});
        effort.report(phase, step, squares, shape.heads);
      });
  effort.count(result);
  VariantCandidate out{shape, std::move(point->parameters), std::move(point->w)};
  if (!point->finite) {  // tokens of zeros, say
    std::fill_n(out.w.data(), out.w.rows() * out.w.cols(), 0.0);
    return out;
  }
  out.train_error = std::sqrt(result.relative_squares);
  out.held_out_error = held_out_error_of(data, out, effort.threads());
  out.at_minimum = result.status == LmStatus::minimum || result.status == LmStatus::stalled;
  return out;
}

VariantCandidate search_variant(const VariantData& data, Index heads, int starts, std::uint64_t seed,
                                Effort& effort) {
  VariantCandidate best;
  for (int start = 0; start < starts && !(start > 0 && effort.expired()); ++start) {
    ++effort.starts;
    VariantCandidate next = solve_start(data, heads, seed, start, effort);
    // Two starts that end at the same small error are at the rounding or the noise of the labels.
    const bool again = start > 0 && next.held_out_error < kNear &&
                       std::abs(next.held_out_error - best.held_out_error) < kSameError * next.held_out_error;
    if (start == 0 || next.held_out_error < best.held_out_error) best = std::move(next);
    if (best.held_out_error < kProof) return finish(data, std::move(best), effort);
    if (again) break;
  }
  return best;
}

VariantCandidate count_variant_heads(const VariantData& data, const RecoverOptions& options, Effort& effort,
                                     Certificate& certificate) {
  VariantCandidate best;
  for (Index heads = 1; heads <= options.max_heads && !(heads > 1 && effort.expired()); ++heads) {
    VariantCandidate next =
        search_variant(data, heads, std::min(kFewStarts, options.starts), options.seed, effort);
    if (heads > 1) certificate.trials.push_back({best.shape.heads, best.train_error, best.held_out_error});
    if (heads == 1 || next.held_out_error < best.held_out_error) best = std::move(next);
    if (best.held_out_error < kProof || equations_per_unknown(data, heads + 1) < 1) break;
  }
  return best;
}

}  // namespace headlens::recovery
