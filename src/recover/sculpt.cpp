// sum of projections -> body -> refined sum -> finer body -> span -> net -> polish
#include "recover/sculpt.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headlens/error.hpp"
#include "recover/challenge.hpp"
#include "recover/sculpt_body.hpp"
#include "recover/sculpt_net.hpp"
#include "recover/sculpt_refine.hpp"
#include "recover/sculpt_span.hpp"
#include "recover/sculpt_sum.hpp"

namespace headlens {
namespace {

constexpr double kFewestSlabs = 2;  // per unknown
constexpr Index kMostSlabs = 8;
constexpr Index kLargestDim = 178;  // d^2 eigenvalues at once; LAPACK counts them in 32 bits

double norm(const std::vector<double>& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return std::sqrt(sum);
}

double relative_change(const Matrix<double>& before, const Matrix<double>& after) {
  double change = 0;
  for (Index i = 0; i < after.rows() * after.cols(); ++i)
    change += (after.data()[i] - before.data()[i]) * (after.data()[i] - before.data()[i]);
  return std::sqrt(change / std::max(squared_norm(after), 1e-300));
}

struct Carved {
  std::unique_ptr<Body> body;
  std::vector<double> proxy;
  Carving carving;
};

std::unique_ptr<Body> body_of(const Cuts& cuts, const RecoverOptions& options, Effort& effort) {
  return options.sculpt.form == SculptForm::linear_program ? carve_polytope(cuts, options.seed, effort)
                                                           : carve_ellipsoid(cuts, effort.threads());
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
// to eight per unknown. The gap of N slabs is too large by N / (N - unknowns), as the least eigenvector is
// fitted to them.
Cuts clearest(const Cuts& cuts, const RecoverOptions& options, Effort& effort) {
  Cuts best = cuts;
  double largest = 0;
  const double unknowns = static_cast<double>(cuts.unknowns());
  for (int step = 0; step <= 4 && !effort.expired(); ++step) {
    const auto count = static_cast<Index>(kFewestSlabs * unknowns * std::pow(2.0, step / 2.0));
    Cuts some = best_of(cuts, count);
    const std::unique_ptr<Body> body = carve_ellipsoid(some, effort.threads());
    const double gap = find_span(*body, options.heads.value_or(0), options.max_heads, SpanForm::eigenvectors,
                                 options.seed, effort)
                           .eigengap;
    const double kept = static_cast<double>(some.slabs.size());
    if (gap * (1 - unknowns / kept) >= largest) largest = gap * (1 - unknowns / kept), best = std::move(some);
    if (count >= static_cast<Index>(cuts.slabs.size())) break;
  }
  return best;
}

// These heads with the W of least squares.
Candidate as_it_is(const Split& split, Matrix<double> theta, int threads) {
  VariableProjection problem(split.train_x, split.train_y, split.tokens, theta.cols() / theta.rows(), threads);
  VariableProjection::Point point = problem.make_point();
  problem.evaluate(std::move(theta), 1e-12, point);
  Candidate out{std::move(point.theta), std::move(point.w), 1, 1};
  if (!point.finite) return out;
  out.train_error = std::sqrt(point.squares / std::max(squared_norm(split.train_y), 1e-300));
  out.held_out_error = held_out_error(split, out.theta, out.w, threads);
  return out;
}

Array as_array(const LongDirections& directions, Index count, Index d) {
  Array out(DType::f64, {count, d, d});
  std::copy_n(directions.vectors.data(), count * d * d, out.data<double>());
  return out;
}

}  // namespace

std::string name(SculptForm form) { return form == SculptForm::least_squares ? "least-squares" : "lp"; }
std::string name(SpanForm form) { return form == SpanForm::eigenvectors ? "eigenvectors" : "membership"; }

double sculpt_bytes(const Split& split, const RecoverOptions& options) {
  const double rows = static_cast<double>(split.train_x.rows), d = static_cast<double>(split.train_x.cols);
  const double unknowns = d * d, k = static_cast<double>(split.tokens);
  const double slabs = options.sculpt.form == SculptForm::linear_program ? 64 * unknowns : 4096;
  // Inputs of phase 1, two agreements, the quadratic form with its eigenvectors and LAPACK's work, the cuts.
  return 8 * (rows * (4 * d + 2 * k + 8) + 6 * unknowns * unknowns + slabs * unknowns);
}

Sculpture sculpt(const Split& split, const RecoverOptions& options, Effort& effort) {
  const int threads = effort.threads();
  const Index d = split.train_x.cols;
  require(d <= kLargestDim, "sculpting: tokens of ", d, " coordinates, expected at most ", kLargestDim);
  Sculpture out;
  SculptReport& report = out.report;
  SculptReport::Seconds& seconds = report.seconds;

  const ProjectionSum crude = timed(seconds.sum, [&] { return sum_of_projections(split, threads); });
  const Agreement agreement =
      timed(seconds.carve, [&] { return measure_agreement(split, crude.s, threads); });
  Carved rough = timed(seconds.carve, [&] {
    return carve(cuts_from(split, agreement, first_rows(split) * (split.tokens - 1)), options, effort);
  });
  const Refinement refined =
      timed(seconds.refine, [&] { return refine_sum(split, agreement, rough.proxy, effort); });
  Carved fine = timed(seconds.carve_again, [&] {
    const Cuts cuts = cuts_from(split, refined.agreement, kMostSlabs * d * d);
    return carve(clearest(cuts, options, effort), options, effort);
  });
  const Span span = timed(seconds.span, [&] {
    return find_span(*fine.body, options.heads.value_or(0), options.max_heads, options.sculpt.span,
                     options.seed, effort);
  });
  NetResult net =
      timed(seconds.net, [&] { return search_net(split, fine.proxy, span, options.seed, effort); });

  report.rough = rough.carving;
  report.fine = fine.carving;
  report.refinement = refined.kind;
  report.sum_change = relative_change(crude.s, refined.sum.s);
  report.widths = span.directions.widths;
  report.eigengap = span.eigengap;
  report.span_dimension = span.heads - 1;
  report.net_size = net.size;
  report.net_error = net.held_out_error;
  out.span = as_array(span.directions, span.heads - 1, d);

  ++effort.starts;
  out.candidate = as_it_is(split, std::move(net.theta), threads);
  if (!options.sculpt.polish) return out;
  const Candidate alone = std::move(out.candidate);
  out.candidate = timed(seconds.polish, [&] {
    return solve_from(split, copy_of(alone).theta, {.ridge = 1e-6}, "sculpt: polish", effort);
  });
  report.polished_error = out.candidate.held_out_error;
  report.polish_distance = distance(alone, out.candidate);
  return out;
}

}  // namespace headlens
