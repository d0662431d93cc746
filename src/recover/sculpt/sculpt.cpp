// sum of projections -> body -> refined sum -> finer body -> span -> net -> polish
#include "recover/sculpt/sculpt.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/nudge.hpp"
#include "recover/sculpt/body.hpp"
#include "recover/sculpt/centre.hpp"
#include "recover/sculpt/net.hpp"
#include "recover/sculpt/refine.hpp"
#include "recover/sculpt/repeats.hpp"
#include "recover/sculpt/span.hpp"
#include "recover/sculpt/sum.hpp"

namespace headlens::recovery {
using namespace sculpting;
namespace {

constexpr double kFewestSlabs = 2;  // per unknown
constexpr Index kMostSlabs = 8;
constexpr int kMostRounds = 6;
constexpr double kLongest = 100;  // times the centre: a body that long has a direction that no slab has seen
constexpr double kRoundHelps = 0.9;  // a round that lowers the error less than this is the last
constexpr Index kLargestDim = 178;   // d^2 eigenvalues at once; LAPACK counts them in 32 bits

double norm(const std::vector<double>& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return std::sqrt(sum);
}

// Of the size after; where nothing is left (the W of a hard parity sum to zero), all has changed: 1.
double relative_change(const Matrix<double>& before, const Matrix<double>& after) {
  if (squared_norm(after) == 0) return squared_norm(before) > 0 ? 1 : 0;
  double change = 0;
  for (Index i = 0; i < after.rows() * after.cols(); ++i)
    change += (after.data()[i] - before.data()[i]) * (after.data()[i] - before.data()[i]);
  return std::sqrt(change / squared_norm(after));
}

struct Carved {
  std::unique_ptr<Body> body;
  std::vector<double> proxy;
  Carving carving;
};

std::unique_ptr<Body> body_of(const Cuts& cuts, const RecoverOptions& options, Effort& effort) {
  return options.sculpt.form == SculptForm::linear_program ? carve_polytope(cuts, options.seed, effort)
                                                           : carve_ellipsoid(cuts, effort);
}

// Phases 2 and 4: the body of these cuts, and its point nearest to 0.
Carved carve(const Cuts& cuts, const RecoverOptions& options, Effort& effort) {
  effort.report("sculpt: carve", 0, 1, 1);
  Carved out;
  out.body = body_of(cuts, options, effort);
  out.proxy = out.body->minimum_norm_point();
  out.carving = {.accepted_rows = 0,
                 .tolerance = cuts.tolerance,
                 .slabs = static_cast<Index>(cuts.slabs.size()),
                 .half_spaces = static_cast<Index>(cuts.half_spaces.size()),
                 .outliers = out.body->outliers(),
                 .body_width = out.body->width(),
                 .minimum_norm = norm(out.proxy)};
  for (const Cut& cut : cuts.slabs) out.carving.accepted_rows += cut.count;
  return out;
}

// Few slabs are exact, many determine every direction: the number with the clearest span is taken, from two
// to eight per unknown. Outliers are found among twice as many, where they cannot hide. The gap of N slabs is
// too large by N / (N - unknowns), as the least eigenvector is fitted to them.
Cuts clearest(const Cuts& cuts, const RecoverOptions& options, Effort& effort) {
  Cuts best = cuts;
  double largest = 0;
  const double unknowns = static_cast<double>(cuts.unknowns());
  for (int step = 0; step <= 4 && !effort.expired(); ++step) {
    const double count = kFewestSlabs * unknowns * std::pow(2.0, step / 2.0);
    const Cuts clean = find_centre(best_of(cuts, static_cast<Index>(2 * count)), effort).cuts;
    Cuts some = best_of(clean, static_cast<Index>(count));
    const std::unique_ptr<Body> body = carve_ellipsoid(some, effort);
    const double gap = find_span(*body, options.heads.value_or(0), options.max_heads, SpanForm::eigenvectors,
                                 options.seed, effort)
                           .eigengap;
    const bool unseen = body->width() > kLongest * norm(body->inner_point());
    const double clear = unseen ? 0 : gap * (1 - unknowns / static_cast<double>(some.slabs.size()));
    if (clear >= largest) largest = clear, best = std::move(some);
    if (count >= static_cast<double>(cuts.slabs.size())) break;
  }
  return best;
}

// These heads with the W of least squares.
Candidate as_it_is(const Split& split, Matrix<double> theta, const Effort& effort) {
  const std::unique_ptr<backend::LayerProblem> problem = pose(split, theta.cols() / theta.rows(), effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(std::move(theta), 1e-12, *point);
  Candidate out{std::move(point->parameters), std::move(point->w), 1, 1};
  if (!point->finite) return out;
  out.train_error = std::sqrt(point->squares / std::max(squared_norm(split.train_y), 1e-300));
  out.held_out_error = held_out_error(split, out.theta, out.w, effort.threads());
  return out;
}

// S = sum of the W_i of these heads.
ProjectionSum sum_of(const Candidate& candidate) {
  const Index d = candidate.theta.rows(), e = candidate.w.cols();
  ProjectionSum out{Matrix<double>::zeros(d, e)};
  for (Index i = 0; i < candidate.w.rows(); ++i)
    for (Index c = 0; c < e; ++c) out.s(i % d, c) += candidate.w(i, c);
  return out;
}

Array as_array(const LongDirections& directions, Index count, Index d) {
  Array out(DType::f64, {count, d, d});
  std::copy_n(directions.vectors.data(), count * d * d, out.data<double>());
  return out;
}

// Phases 4, 5 and 6 from an agreement: the finer body, its span, the best tuple of the net in that span.
struct Round {
  Carving carving;
  Span span;
  Index net_size = 0;
  Candidate candidate;
  std::vector<Matrix<double>> next_best;  // other tuples of the net
};
Round run_round(const Split& split, const Split& examples, const Agreement& agreement,
                const RecoverOptions& options, Effort& effort, SculptReport::Seconds& seconds) {
  const Carved fine = timed(seconds.carve_again, [&] {
    const Cuts cuts =
        cuts_from(examples, agreement, 2 * kMostSlabs * split.train_x.cols * split.train_x.cols);
    return carve(clearest(cuts, options, effort), options, effort);
  });
  Round out;
  out.carving = fine.carving;
  out.span = timed(seconds.span, [&] {
    return find_span(*fine.body, options.heads.value_or(0), options.max_heads, options.sculpt.span,
                     options.seed, effort);
  });
  timed(seconds.net, [&] {
    NetResult net = search_net(split, fine.proxy, out.span, options, effort);
    out.net_size = net.size;
    out.next_best = std::move(net.next_best);
    out.candidate = as_it_is(split, std::move(net.theta), effort);
    return 0;
  });
  return out;
}

// The heads of the net have a better sum of projections, with which other rows agree: the last phases are
// repeated while that lowers the held-out error.
void run_rounds(const Split& split, const Split& examples, const Agreement& first,
                const RecoverOptions& options, Effort& effort, SculptReport& report, Round& best) {
  best = run_round(split, examples, first, options, effort, report.seconds);
  for (report.rounds = 1; report.rounds < kMostRounds && !effort.expired();) {
    const Agreement agreement = timed(report.seconds.carve_again, [&] {
      return measure_agreement(examples, sum_of(best.candidate).s, effort.threads());
    });
    Round next = run_round(split, examples, agreement, options, effort, report.seconds);
    ++report.rounds;
    const double before = best.candidate.held_out_error, after = next.candidate.held_out_error;
    if (after < before) best = std::move(next);
    if (after > kRoundHelps * before) break;
  }
}

// The polish, from the best tuple and, where it may have ended in a local minimum, from the next best ones.
// That two of them end at the same heads says little: they come from one net, and a minimum with heads
// missing draws many of them.
Candidate polish_tuples(const Split& split, Round& round, Effort& effort, SculptReport& report) {
  const auto polished = [&](Matrix<double> theta) {
    ++effort.starts, ++report.polished_tuples;
    return solve_from(split, std::move(theta), {.ridge = 1e-6}, "sculpt: polish", effort);
  };
  Candidate best = polished(copy_of(round.candidate.theta));
  for (Matrix<double>& theta : round.next_best) {
    if (best.held_out_error < kNear || effort.expired()) break;
    Candidate next = polished(std::move(theta));
    if (next.held_out_error < best.held_out_error) best = std::move(next);
  }
  return best;
}

// Phases 1 to 6. What the time limit ends leaves the report and the round as they were.
void run_phases(const Split& split, const RecoverOptions& options, Effort& effort, SculptReport& report,
                Round& last) {
  const int threads = effort.threads();
  SculptReport::Seconds& seconds = report.seconds;
  const ProjectionSum crude = timed(seconds.sum, [&] { return sum_of_projections(split, threads); });
  const DistinctExamples distinct = timed(seconds.carve, [&] { return average_repeated(split); });
  const Split& examples = distinct.split;
  const Agreement agreement =
      timed(seconds.carve, [&] { return measure_agreement(examples, crude.s, threads); });
  const Carved rough = timed(seconds.carve, [&] {
    return carve(cuts_from(examples, agreement, first_rows(examples) * (split.tokens - 1)), options, effort);
  });
  report.rough = rough.carving;
  const Refinement refined =
      timed(seconds.refine, [&] { return refine_sum(examples, agreement, rough.proxy, effort); });
  report.refinement = refined.kind;
  report.sum_change = relative_change(crude.s, refined.sum.s);
  run_rounds(split, examples, refined.agreement, options, effort, report, last);
}

}  // namespace

double sculpt_bytes(const Split& split, const RecoverOptions& options) {
  const double rows = static_cast<double>(split.train_x.rows), d = static_cast<double>(split.train_x.cols);
  const double unknowns = d * d, k = static_cast<double>(split.tokens);
  const double slabs = options.sculpt.form == SculptForm::linear_program ? 64 * unknowns : 4096;
  // Inputs of phase 1 and distinct examples, two agreements, the cuts with the keys that tell them apart; the
  // quadratic form with its eigenvectors and LAPACK's work, the normals.
  const double e = static_cast<double>(split.train_y.cols), cuts = (k - 1) * (2 * d + 32);
  return 8 * (rows * (5 * d + 4 * e + 2 * k + 8 + cuts) + 8 * unknowns * unknowns + slabs * unknowns);
}

Sculpture sculpt(const Split& split, const RecoverOptions& options, Effort& effort) {
  const Index d = split.train_x.cols;
  require(d <= kLargestDim, "sculpting: tokens of ", d, " coordinates, expected at most ", kLargestDim);
  Sculpture out;
  SculptReport& report = out.report;
  Round last;
  (void)effort.in_time([&] { run_phases(split, options, effort, report, last); });
  report.fine = last.carving;
  report.widths = last.span.directions.widths;
  report.eigengap = last.span.eigengap;
  report.span_dimension = last.span.heads - 1;
  report.net_size = last.net_size;
  report.net_error = last.candidate.held_out_error;
  out.span = as_array(last.span.directions, report.span_dimension, d);

  if (!options.sculpt.polish || effort.expired()) {
    ++effort.starts;
    out.candidate = std::move(last.candidate);
    return out;
  }
  out.candidate = timed(report.seconds.polish, [&] { return polish_tuples(split, last, effort, report); });
  report.polished_error = out.candidate.held_out_error;
  report.polish_distance = distance(last.candidate, out.candidate);
  return out;
}

}  // namespace headlens::recovery
