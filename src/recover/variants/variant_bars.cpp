#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/head_content.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/error_bars.hpp"
#include "recover/certificate/label_response.hpp"
#include "recover/factors/gauge.hpp"
#include "recover/variants/variant_gauge.hpp"
#include "recover/variants/variant_proof.hpp"

namespace headlens::recovery {
namespace {

constexpr double kSafety = 4;        // beyond first order, and what the fit absorbed
constexpr double kUnsettled = 4;     // times: an eigenvalue that was still falling
constexpr double kLowDraws = 4;      // times: draws that were low by chance
constexpr double kRounding = 1e-14;  // of |Y|
constexpr int kExactDraws = 3, kNoisyDraws = 16;

std::vector<double> block_of(const Matrix<double>& w, Index dim, Index head) {
  return {w.data() + head * dim * w.cols(), w.data() + (head + 1) * dim * w.cols()};
}

double product_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// |content| outside per length of a direction inside, at most. Theta turns to M Theta M^T and a bias to u
// M^T; a plane of rotary columns, q k^* as a complex product, changes by dq k^* + q dk^*.
double steepest_content(const VariantOutside& outside, const VariantShape& shape,
                        const Matrix<double>& parameters, Index head) {
  const Svd all = svd(outside.m.view());
  if (!all.ok) return std::numeric_limits<double>::infinity();
  const double stretch = all.values.front();
  if (!shape.rotary()) return std::max(stretch, stretch * stretch);
  double squares = 1;  // the bias
  for (const Index first : {head * shape.rank, (shape.heads + head) * shape.rank})
    squares += squared_norm(parameters.view().block(0, first, parameters.rows(), shape.rank));
  return stretch * std::sqrt(squares);
}

// The directions that the labels see least, with the W that follows each: a label error of length one moves
// the parameters by 1 / sqrt(eigenvalue) along a direction, and by no more than the last of these along all
// others.
struct WeakDirections {
  const WeakestDirection& found;
  std::vector<Matrix<double>> w;
};
WeakDirections follow(backend::LinearModel& model, const WeakestDirection& weakest, Index rows,
                      Index outputs) {
  WeakDirections out{weakest, {}};
  Matrix<double> moved(rows, outputs);
  for (const Matrix<double>& direction : weakest.directions) {
    model.derivative(direction, moved);
    out.w.push_back(model.best_w(moved));
  }
  return out;
}

// Of one head outside, for labels with an error of length one, whatever its direction.
HeadBound worst_error(const VariantOutside& outside, const VariantCandidate& c, const WeakDirections& weak,
                      Index head) {
  const VariantShape shape = outside.shape(c.shape);
  const Matrix<double> parameters = outside.parameters(c.shape, c.parameters);
  const std::vector<double>& values = weak.found.values;
  double theta = std::pow(steepest_content(outside, shape, parameters, head), 2) / values.back(), w = 0;
  for (std::size_t r = 0; r < values.size(); ++r) {
    const Matrix<double> along = outside.parameters(c.shape, weak.found.directions[r]);
    theta += std::pow(norm_of(content_change(shape, parameters, along, head)), 2) / values[r];
    w += std::pow(norm_of(block_of(outside.readout(c.shape, weak.w[r]), shape.dim, head)), 2) / values[r];
  }
  return {std::sqrt(theta), std::sqrt(w)};
}

// The errors of one head outside, for labels with an error of `size`: one number per draw and side, and not
// below `least`.
HeadBound relative_bound(const VariantOutside& outside, const VariantCandidate& c,
                         const std::vector<ErrorDraw>& drawn, Index head, VariantLabels labels, double size,
                         const HeadBound& least) {
  const VariantShape shape = outside.shape(c.shape);
  const Matrix<double> parameters = outside.parameters(c.shape, c.parameters),
                       w = outside.readout(c.shape, c.w);
  std::vector<std::vector<double>> content, values;
  for (const ErrorDraw& draw : drawn) {
    content.push_back(content_change(shape, parameters, outside.parameters(c.shape, draw.parameters), head));
    values.push_back(block_of(outside.readout(c.shape, draw.w), shape.dim, head));
  }
  const auto entries = [](const auto& draws) { return static_cast<Index>(draws[0].size()); };
  const Spread a = spread_of(products_of(content, product_of), entries(content)),
               b = spread_of(products_of(values, product_of), entries(values));
  const auto bar = [&](const Spread& spread) {
    return size * std::sqrt(spread.trace) *
           (labels == VariantLabels::exact ? kLowDraws : std::sqrt(spread.quantile));
  };
  return {relative_to_truth(std::max(bar(a), least.theta), norm_of(content_of(shape, parameters, head))),
          relative_to_truth(std::max(bar(b), least.w), norm_of(block_of(w, shape.dim, head)))};
}

// Of even and of uneven noise, where both were drawn.
HeadBound widest_bound(const VariantOutside& outside, const VariantCandidate& candidate,
                       const LabelResponse& found, Index head, VariantLabels labels, double size,
                       const HeadBound& least) {
  HeadBound out;
  for (const std::vector<ErrorDraw>* set : {&found.drawn, &found.uneven}) {
    if (set->empty()) continue;
    const HeadBound one = relative_bound(outside, candidate, *set, head, labels, size, least);
    out = {std::max(out.theta, one.theta), std::max(out.w, one.w)};
  }
  return out;
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
  const bool exact = labels == VariantLabels::exact;
  const double equations =
      equations_per_unknown(data, shape.heads) * variant_unknowns(shape, problem->outputs());
  const Matrix<double> sizes = noise_sizes(problem->residual(*point), equations);
  const VariantGauge gauge(shape, point->parameters);
  const LabelResponse found = label_response(
      *problem, *point,
      {.draws = {.count = exact ? kExactDraws : kNoisyDraws,
                 .seed = seed,
                 .stream = "error bars of a variant",
                 .heads = shape.heads},
       .any_stream = "direction of a variant",
       .uneven_stream = exact ? "" : "bars of a variant with uneven noise",
       .uneven_sizes = &sizes,
       .pin = {}},
      [&](double curvature) {
        return std::make_unique<GaugeFixed>(
            *problem, [&](MatrixView<const double> a) { return gauge.part(a); }, curvature);
      },
      effort);
  const WeakestDirection& weakest = found.weakest;
  out.resolved = found.resolved;
  if (!out.resolved) return out;
  out.response = weakest.response;
  out.noise =
      std::sqrt(point->squares / std::max(1.0, equations - variant_unknowns(shape, problem->outputs())));
  const double left =
      kSafety * std::max(std::sqrt(point->squares), kRounding * std::sqrt(problem->y_squares()));
  const double worst = left * (weakest.settled ? 1 : kUnsettled);
  const WeakDirections weak = follow(*found.model, weakest, problem->rows(), problem->outputs());
  for (Index i = 0; i < shape.heads; ++i) {
    const HeadBound unit = exact ? worst_error(outside, candidate, weak, i) : HeadBound{};
    out.relative.push_back(widest_bound(outside, candidate, found, i, labels, exact ? left : out.noise,
                                        {worst * unit.theta, worst * unit.w}));
  }
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
