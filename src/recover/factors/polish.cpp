#include "recover/factors/polish.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/vector_space.hpp"
#include "recover/factors/gauge.hpp"

namespace headlens::recovery {
namespace {

// Steps that are solved to two digits cost a quarter of those solved to four, and win two digits each.
constexpr double kLoose = 1e-2;
constexpr double kLastDigits = 1e-18;  // relative squares at which the ridge goes
constexpr double kLastDamping = 1e-10;

}  // namespace

double equations_per_unknown(const Split& split, const backend::HeadRanks& ranks) {
  return split.labels() / factor_unknowns(ranks, split.train_x.cols, split.train_y.cols);
}

Split first_equations(const Split& split, const backend::HeadRanks& ranks, double equations) {
  const double share = equations / equations_per_unknown(split, ranks);
  if (share >= 0.8) return split;
  const Index k = split.tokens;
  const auto rows =
      std::max<Index>(1, static_cast<Index>(share * static_cast<double>(split.train_x.rows / k))) * k;
  return split.first_rows(rows);
}

double polish_bytes(const Split& split, const backend::HeadRanks& ranks, double all_rows,
                    const Effort& effort) {
  const double rows = all_rows / effort.context().ranks.size();
  const double all = static_cast<double>(split.train_x.rows), d = static_cast<double>(split.train_x.cols),
               e = static_cast<double>(split.train_y.cols), k = static_cast<double>(split.tokens);
  const double z = static_cast<double>(ranks.parameter_columns()),
               b = static_cast<double>(ranks.value_columns()), m = static_cast<double>(ranks.heads());
  // Two points (z, P, Phi, residual), the tangents in float and double with the tokens, images of CG,
  // draws of noise and its sizes; the sums over groups of examples; Gram matrices and factors of both points;
  // the preconditioner; the layer that is returned, multiplied out; whitened tokens, and tokens sorted to
  // look for repeated examples.
  const double point = 8 * (z + m * k + b + e), tangents = 12 * (d + z + m * k + b),
               images = 8 * (5 * e + 3 * b);
  // Where labels are missing: a factor for every output of both points, and the orthonormal features.
  const double partial = split.is_partial() ? 8 * (2 * e * b * b + rows * b) : 0;
  return rows * (2 * point + tangents + images) + 8 * (6 * b * b + 24 * d * z) + 16 * m * d * d +
         24 * m * d * (d + e) + 24 * all * d + partial;
}

Polished polish(const Split& split, const Factors& start, const PolishOptions& options,
                const std::string& phase, Effort& effort) {
  Factors from = balanced(start, 0, 0, effort.threads());
  const auto problem =
      effort.context().machine.make_factor_problem(split.train(), from.ranks, effort.context());
  std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  const double squares = std::max(squared_norm(from.values.parameters), 1e-300);
  point->parameters = std::move(from.values.parameters);
  // The ridge keeps O tame on the way and hides the last digits, so these are found without one.
  const LmOptions way{.ridge = options.ridge,
                      .mu = options.damping * problem->unknowns() / squares,
                      .tolerance = std::max(options.tolerance, kLastDigits),
                      .max_steps = options.max_steps,
                      .max_inner = options.max_inner,
                      .ends_capped = options.ends_capped,
                      .tightest = kLoose,
                      .stall_steps = options.stall_steps,
                      .stall_factor = options.stall_factor};
  // Directions that change no head have no slope but for rounding, and next to no curvature: with few digits
  // left, steps would go that way.
  const auto without_gauge = [&](const Matrix<double>& parameters, Matrix<double>& gradient) {
    const Factors here{from.ranks, {copy_of(parameters), {}}};
    add(-1.0, gauge_part(here, gradient), gradient);
  };
  const LmOptions end{.ridge = 0,
                      .mu = kLastDamping * problem->unknowns() / squares,
                      .tolerance = options.tolerance,
                      .max_steps = 8,
                      .tightest = kLoose,
                      .clean = without_gauge,
                      .stall_steps = 1,  // a step that wins nothing has met rounding: no other would
                      .stall_factor = 0.5};
  const auto run = [&](const LmOptions& lm) {
    const LmResult result = minimise(
        *problem, point, lm, [&] { return effort.must_stop(); },
        [&](int step, double relative) {
          effort.trace.push_back({phase, from.heads(), effort.seconds(), std::sqrt(relative), step, {}});
          effort.report(phase, step, relative, from.heads());
        });
    effort.count(result);
    return result;
  };
  LmResult result = run(way);
  if (result.status == LmStatus::converged && options.tolerance < kLastDigits) result = run(end);
  Polished out{std::move(from), result.status};
  out.factors.values = {std::move(point->parameters), std::move(point->w)};
  if (!point->finite) return {copy_of(start), LmStatus::stalled};
  out.factors.train_error = std::sqrt(result.relative_squares);
  out.factors.held_out_error = error_on(split.held(), out.factors, effort.context());
  return out;
}

}  // namespace headlens::recovery
