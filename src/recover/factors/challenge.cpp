#include "recover/factors/challenge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/error_bars.hpp"
#include "recover/certificate/label_response.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/content.hpp"
#include "recover/factors/gauge.hpp"

namespace headlens::recovery {
namespace {

constexpr double kSafety = 4;        // beyond first order, what the fit absorbed, and eigenvalues found to 1%
constexpr double kUnsettled = 4;     // times: an eigenvalue that was still falling
constexpr double kLowDraws = 4;      // times: draws that were low by chance
constexpr double kRounding = 1e-14;  // of |Y|: labels and our own sums
constexpr int kExactDraws = 3, kNoisyDraws = 16;
constexpr double kNudge = 1e-3, kReturned = 0.02;
// Relative squares at which heads are asked whether they have returned: most have at the first.
constexpr double kAskedFirst = 1e-12, kAskedLast = 1e-14;

// |content error| of one head along a direction of the parameters.
double theta_moved(const Factors& factors, const Matrix<double>& direction, Index head) {
  const Products moved = content_error(factors, direction, head);
  return std::sqrt(std::max(0.0, product_of(moved, moved)));
}

// The bound of one Theta for labels with an error of length one.
double theta_bound(const Factors& factors, const WeakestDirection& weakest, Index head) {
  double squares = 2 * largest_singular_value(head_of(factors, head)) / weakest.values.back();
  for (std::size_t r = 0; r < weakest.values.size(); ++r)
    squares += std::pow(theta_moved(factors, weakest.directions[r], head), 2) / weakest.values[r];
  return std::sqrt(squares);
}

// Of the errors that draws of noise of deviation one make in one head.
struct HeadSpread {
  Spread theta, w;
};
HeadSpread spread_of_head(const Factors& factors, const std::vector<ErrorDraw>& drawn, Index head) {
  std::vector<Products> theta, w;
  for (const ErrorDraw& draw : drawn) {
    theta.push_back(content_error(factors, draw.parameters, head));
    w.push_back(w_error(factors, draw.parameters, draw.w, head));
  }
  const auto entries = [](const Products& error) {
    Index out = 0;
    for (const Product& part : error) out += part.a.rows() * part.a.cols();
    return out;
  };
  return {spread_of(products_of(theta, product_of), entries(theta[0])),
          spread_of(products_of(w, product_of), entries(w[0]))};
}

// |A - B| of two products; where nothing turns from the columns of both, [Q_a, -Q_b] [K_a, K_b]^T, because
// the SVD of the difference keeps digits that a difference of squares would lose.
OwnHead difference_of(const HeadFactors& x, const HeadFactors& y) {
  Matrix<double> minus_q(y.q.rows, y.q.cols), minus_v(y.v.rows, y.v.cols);
  for (Index r = 0; r < y.q.rows; ++r)
    for (Index c = 0; c < y.q.cols; ++c) minus_q(r, c) = -y.q(r, c);
  for (Index r = 0; r < y.v.rows; ++r)
    for (Index c = 0; c < y.v.cols; ++c) minus_v(r, c) = -y.v(r, c);
  return balanced({side_by_side(x.q, minus_q.view()), side_by_side(x.k, y.k),
                   side_by_side(x.v, minus_v.view()),
                   transposed(side_by_side(transposed(x.o).view(), transposed(y.o).view()).view())});
}

// |error|^2 stays below this with probability 0.95.
double largest_of(const Spread& spread) { return spread.trace * spread.quantile; }

}  // namespace

FactorBars factor_bars(const Split& split, const Factors& given, LabelsAre labels, std::uint64_t seed,
                       Effort& effort) {
  Factors factors = balanced(given, 0, 0, effort.threads());
  const auto problem =
      effort.context().machine.make_factor_problem(split.train(), factors.ranks, effort.context());
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(headlens::copy_of(factors.values.parameters), 0, *point);
  FactorBars out;
  if (!point->finite) return out;
  factors.values.o = headlens::copy_of(point->w);
  problem->linearise(*point);
  const bool exact = labels == LabelsAre::exact;
  const Matrix<double> sizes = noise_sizes(problem->residual(*point), split.labels());
  const LabelResponse found = label_response(
      *problem, *point,
      {.draws = {.count = exact ? kExactDraws : kNoisyDraws,
                 .seed = seed,
                 .stream = "error bars of factors",
                 .heads = factors.heads()},
       .any_stream = "direction of factors",
       .uneven_stream = exact ? "" : "bars of factors with uneven noise",
       .uneven_sizes = &sizes,
       .pin = [&](MatrixView<double> a) { backend::pin(factors.ranks, a); }},
      [&](double curvature) { return std::make_unique<GaugeFixed>(*problem, factors, curvature); }, effort);
  const WeakestDirection& weakest = found.weakest;
  out.resolved = found.resolved;
  if (!out.resolved) return out;
  out.response = weakest.response;
  const double spare = split.labels() - factor_unknowns(factors.ranks, factors.dim(), factors.outputs());
  out.noise = std::sqrt(point->squares / std::max(1.0, spare));
  const double left = std::max(std::sqrt(point->squares), kRounding * std::sqrt(problem->y_squares())) *
                      kSafety * (weakest.settled ? 1 : kUnsettled);
  out.label_error = left;
  for (Index i = 0; i < factors.heads(); ++i) {
    const HeadSpread even = spread_of_head(factors, found.drawn, i);
    if (exact) {
      out.heads.push_back(
          {left * theta_bound(factors, weakest, i), kLowDraws * left * std::sqrt(even.w.trace)});
      continue;
    }
    const HeadSpread own = spread_of_head(factors, found.uneven, i);
    out.heads.push_back({out.noise * std::sqrt(std::max(largest_of(even.theta), largest_of(own.theta))),
                         out.noise * std::sqrt(std::max(largest_of(even.w), largest_of(own.w)))});
  }
  return out;
}

double factor_distance(const Factors& a, const Factors& b, int threads) {
  std::vector<double> distances(static_cast<std::size_t>(layer_heads(a)));
  parallel_for(threads, layer_heads(a), [&](Index i, int) {
    const HeadFactors x = head_of(a, i), y = head_of(b, i);
    const OwnHead own = difference_of(x, y);
    const double size = theta_norm(y);
    const double theta =
        x.rotary ? std::sqrt(std::max(0.0, theta_product(x, x) + size * size - 2 * theta_product(x, y)))
                 : theta_norm(own.view());
    double& out = distances[static_cast<std::size_t>(i)];
    out = std::max(theta / std::max(size, 1e-300), w_norm(own.view()) / std::max(w_norm(y), 1e-300));
    if (!std::isfinite(theta) || !std::isfinite(w_norm(own.view())))
      out = std::numeric_limits<double>::infinity();
  });
  return distances.empty() ? 0 : *std::max_element(distances.begin(), distances.end());
}

bool factors_come_back(const Split& split, const Factors& factors, int inner, std::uint64_t seed,
                       Effort& effort) {
  Factors nudged = balanced(factors, 0, 0, effort.threads());
  const Index size = nudged.values.parameters.rows() * nudged.values.parameters.cols();
  const double entry = std::sqrt(squared_norm(nudged.values.parameters) / static_cast<double>(size));
  Stream stream(seed, "nudge of factors");
  Matrix<double> nudge(nudged.values.parameters.rows(), nudged.values.parameters.cols());
  for (Index i = 0; i < size; ++i) nudge.data()[i] = kNudge * entry * stream.normal();
  backend::pin(factors.ranks, nudge.view());
  add(1.0, nudge, nudged.values.parameters);
  for (const double tolerance : {kAskedFirst, kAskedLast}) {
    const PolishOptions options{.damping = 1e-8,
                                .ridge = 1e-12,
                                .tolerance = tolerance,
                                .max_steps = 12,
                                .stall_steps = 5,
                                .max_inner = inner};
    nudged = polish(split, nudged, options, "nudge", effort).factors;
    if (factor_distance(nudged, factors, effort.threads()) < kReturned * kNudge) return true;
  }
  return false;
}

}  // namespace headlens::recovery
