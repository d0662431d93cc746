#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/head_content.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/weakest_direction.hpp"
#include "recover/factors/gauge.hpp"
#include "recover/variants/variant_gauge.hpp"
#include "recover/variants/variant_proof.hpp"

namespace headlens::recovery {
namespace {

constexpr double kTolerance = 1e-2;
constexpr int kMostInner = 1000;
constexpr double kSafety = 4;        // beyond first order, and what the fit absorbed
constexpr double kLowDraws = 4;      // times: draws that were low by chance
constexpr double kResolved = 1e-11;  // of the typical curvature: below it products are rounding
constexpr double kRounding = 1e-14;  // of |Y|
constexpr int kExactDraws = 3, kNoisyDraws = 16;
constexpr double kConfidence = 0.95;

// One error of the parameters and of W'.
struct Draw {
  Matrix<double> parameters, w;
};

bool is_solved(backend::LinearModel& model, const Matrix<double>& b, double mu, const Matrix<double>& a) {
  Matrix<double> left(b.rows(), b.cols());
  model.normal_product(a, left);
  add(mu, a, left);
  add(-1.0, b, left);
  return inner_product(left, model.precondition(left)) <
         std::pow(3 * kTolerance, 2) * inner_product(b, model.precondition(b));
}

// False if the solver did not get there.
bool draw_error(const backend::LayerProblem& problem, backend::LinearModel& model, double mu, Stream stream,
                Effort& effort, Draw& draw) {
  Matrix<double> noise(problem.rows(), problem.outputs()), moved(problem.rows(), problem.outputs());
  for (Index i = 0; i < noise.rows() * noise.cols(); ++i) noise.data()[i] = stream.normal();
  Matrix<double> projected = headlens::copy_of(noise);
  model.project(projected);
  model.adjoint(projected, draw.parameters);
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    backend::Step step = model.solve(draw.parameters, mu, kTolerance, kMostInner, precision,
                                     [&] { return effort.must_stop(); });
    effort.inner += step.inner;
    if (effort.expired()) return false;
    if (!is_solved(model, draw.parameters, mu, step.direction)) continue;
    model.derivative(step.direction, moved);
    add(-1.0, moved, noise);
    draw.w = model.best_w(noise);
    draw.parameters = std::move(step.direction);
    return true;
  }
  return false;
}

std::vector<double> block_of(const Matrix<double>& w, Index dim, Index head) {
  return {w.data() + head * dim * w.cols(), w.data() + (head + 1) * dim * w.cols()};
}

double product_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// E |error|^2, and the 95% point of |error|^2 beside it (certificate/error_bars.hpp).
struct Spread {
  double trace = 0, quantile = 1;
};
Spread spread_of(const std::vector<std::vector<double>>& draws) {
  const double count = static_cast<double>(draws.size());
  Spread out;
  double squares = 0;
  for (std::size_t r = 0; r < draws.size(); ++r) {
    out.trace += product_of(draws[r], draws[r]) / count;
    for (std::size_t s = 0; s < r; ++s)
      squares += 2 * std::pow(product_of(draws[r], draws[s]), 2) / (count * (count - 1));
  }
  if (!(out.trace > 0)) return out;
  const double freedom = std::clamp(out.trace * out.trace / std::max(squares, 1e-300), 1.0,
                                    static_cast<double>(draws[0].size()));
  out.quantile = boost::math::quantile(boost::math::fisher_f(freedom, count * freedom), kConfidence);
  return out;
}

Matrix<double> any_direction(const VariantShape& shape, std::uint64_t seed) {
  Stream stream(seed, "direction of a variant");
  Matrix<double> a(shape.rows(), shape.columns());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) a.data()[i] = stream.normal();
  return a;
}

// <a, H a> / <a, a> for a random a: about the mean eigenvalue.
double typical_curvature(backend::LinearModel& model, const Matrix<double>& a) {
  Matrix<double> image(a.rows(), a.cols());
  model.normal_product(a, image);
  return inner_product(a, image) / squared_norm(a);
}

// The errors of one head outside, for labels with an error of `size`: one number per draw and side.
HeadBound relative_bound(const VariantOutside& outside, const VariantCandidate& c,
                         const std::vector<Draw>& drawn, Index head, VariantLabels labels, double size) {
  const VariantShape shape = outside.shape(c.shape);
  const Matrix<double> parameters = outside.parameters(c.shape, c.parameters),
                       w = outside.readout(c.shape, c.w);
  std::vector<std::vector<double>> content, values;
  for (const Draw& draw : drawn) {
    content.push_back(content_change(shape, parameters, outside.parameters(c.shape, draw.parameters), head));
    values.push_back(block_of(outside.readout(c.shape, draw.w), shape.dim, head));
  }
  const Spread a = spread_of(content), b = spread_of(values);
  const auto bar = [&](const Spread& spread) {
    return size * std::sqrt(spread.trace) *
           (labels == VariantLabels::exact ? kLowDraws : std::sqrt(spread.quantile));
  };
  return {relative_to_truth(bar(a), norm_of(content_of(shape, parameters, head))),
          relative_to_truth(bar(b), norm_of(block_of(w, shape.dim, head)))};
}

}  // namespace

VariantBars variant_bars(const VariantData& data, const VariantOutside& outside,
                         const VariantCandidate& candidate, VariantLabels labels, std::uint64_t seed,
                         Effort& effort) {
  const VariantShape& shape = candidate.shape;
  const auto problem = pose(data, shape, effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(headlens::copy_of(candidate.parameters), 0, *point);
  VariantBars out;
  if (!point->finite) return out;
  problem->linearise(*point);
  const std::unique_ptr<backend::LinearModel> model = problem->make_linear_model();
  const double mu = 1e-14 * problem->y_squares() / std::max(squared_norm(point->parameters), 1e-300);
  model->move_to(*point);
  model->refresh_preconditioner(*point);
  model->shift_preconditioner(mu);
  std::vector<Draw> drawn;
  for (int r = 0; r < (labels == VariantLabels::exact ? kExactDraws : kNoisyDraws); ++r) {
    drawn.push_back({Matrix<double>(shape.rows(), shape.columns()), {}});
    effort.report("error bars", r, 1, shape.heads);
    const Stream stream(seed, "error bars of a variant", static_cast<std::uint64_t>(r));
    if (!draw_error(*problem, *model, mu, stream, effort, drawn.back())) return out;
  }
  const Matrix<double> any = any_direction(shape, seed);
  const double typical = typical_curvature(*model, any);
  const VariantGauge gauge(shape, point->parameters);
  const GaugeFixed fixed(
      *problem, [&](MatrixView<const double> a) { return gauge.part(a); }, typical);
  std::vector<Matrix<double>> starts;
  for (std::size_t r = 0; r < 3; ++r) starts.push_back(headlens::copy_of(drawn[r].parameters));
  starts.push_back(headlens::copy_of(any));
  const WeakestDirection weakest =
      weakest_direction(fixed, *point, starts, [&] { return effort.must_stop(); });
  effort.inner += weakest.products;
  out.resolved = !effort.expired() && !weakest.values.empty() && weakest.values[0] > kResolved * typical;
  if (!out.resolved) return out;
  out.response = weakest.response;
  const double equations =
      equations_per_unknown(data, shape.heads) * variant_unknowns(shape, problem->outputs());
  out.noise =
      std::sqrt(point->squares / std::max(1.0, equations - variant_unknowns(shape, problem->outputs())));
  const double left =
      kSafety * std::max(std::sqrt(point->squares), kRounding * std::sqrt(problem->y_squares()));
  for (Index i = 0; i < shape.heads; ++i)
    out.relative.push_back(relative_bound(outside, candidate, drawn, i, labels,
                                          labels == VariantLabels::exact ? left : out.noise));
  return out;
}

Matrix<double> VariantOutside::parameters(const VariantShape& inside, MatrixView<const double> white) const {
  const VariantShape outer = shape(inside);
  const Index d = outer.dim, s = inside.dim;
  Matrix<double> out(outer.rows(), white.cols);
  gemm(Trans::no, Trans::no, 1.0, m.view(), white.block(0, 0, s, white.cols), 0.0,
       out.view().block(0, 0, d, white.cols));
  if (inside.rotary()) return out;
  if (inside.rows() > s) std::copy_n(white.row(s), white.cols, out.view().row(d));
  Matrix<double> both(outer.rows(), outer.columns());
  for (Index i = 0; i < inside.heads; ++i)
    gemm(Trans::no, Trans::yes, 1.0, std::as_const(out).view().block(0, i * s, outer.rows(), s), m.view(),
         0.0, both.view().block(0, i * d, outer.rows(), d));
  return both;
}

Matrix<double> VariantOutside::readout(const VariantShape& inside, MatrixView<const double> white) const {
  const VariantShape outer = shape(inside);
  const Index d = outer.dim, s = inside.dim, e = white.cols;
  Matrix<double> out(outer.features(), e);
  for (Index i = 0; i < inside.heads; ++i)
    gemm(Trans::no, Trans::no, 1.0, m.view(), white.block(i * s, 0, s, e), 0.0,
         out.view().block(i * d, 0, d, e));
  if (inside.variant.bias) std::copy_n(white.row(inside.heads * s), e, out.view().row(inside.heads * d));
  for (Index i = 0; i < out.rows() * e; ++i) out.data()[i] = std::scalbn(out.data()[i], labels);
  return out;
}

}  // namespace headlens::recovery
