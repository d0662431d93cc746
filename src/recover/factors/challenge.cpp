#include "recover/factors/challenge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/label_response.hpp"
#include "recover/factors/gauge.hpp"

namespace headlens::recovery {
namespace {

constexpr double kSafety = 4;        // beyond first order, what the fit absorbed, and eigenvalues found to 1%
constexpr double kUnsettled = 4;     // times: an eigenvalue that was still falling
constexpr double kLowDraws = 4;      // times: draws that were low by chance
constexpr double kRounding = 1e-14;  // of |Y|: labels and our own sums
constexpr int kExactDraws = 3, kNoisyDraws = 16;
constexpr double kNudge = 1e-3, kReturned = 0.02;

Matrix<double> beside(MatrixView<const double> a, MatrixView<const double> b) {
  Matrix<double> out(a.rows, a.cols + b.cols);
  for (Index i = 0; i < a.rows; ++i) {
    std::copy_n(a.row(i), a.cols, out.view().row(i));
    std::copy_n(b.row(i), b.cols, out.view().row(i) + a.cols);
  }
  return out;
}

// A B^T = dTheta or dW of one head.
struct Product {
  Matrix<double> a, b;
};
Product theta_error(const Factors& f, const ErrorDraw& draw, Index head) {
  const backend::HeadColumns c = backend::columns_of(f.ranks)[static_cast<std::size_t>(head)];
  const HeadFactors h = head_of(f, head);
  const MatrixView<const double> z = draw.parameters.view();
  return {beside(z.block(0, c.q, z.rows, c.logits), h.q), beside(h.k, z.block(0, c.k, z.rows, c.logits))};
}
Product w_error(const Factors& f, const ErrorDraw& draw, Index head) {
  const backend::HeadColumns c = backend::columns_of(f.ranks)[static_cast<std::size_t>(head)];
  const HeadFactors h = head_of(f, head);
  const MatrixView<const double> z = draw.parameters.view();
  return {beside(z.block(0, c.v, z.rows, c.values), h.v),
          beside(transposed(h.o), transposed(draw.w.view().block(c.o, 0, c.values, draw.w.cols())))};
}

double product_of(const Product& x, const Product& y) {
  return factored_product(x.a.view(), x.b.view(), y.a.view(), y.b.view());
}

// |dTheta| of one head along a direction of the parameters.
double theta_moved(const Factors& factors, const Matrix<double>& direction, Index head) {
  const ErrorDraw draw{headlens::copy_of(direction), {}};
  const Product moved = theta_error(factors, draw, head);
  return std::sqrt(std::max(0.0, product_of(moved, moved)));
}

double largest_singular_value(const HeadFactors& head) {  // of Theta, balanced: the largest |q_j|^2
  double largest = 0;
  for (Index j = 0; j < head.q.cols; ++j) {
    double squares = 0;
    for (Index i = 0; i < head.q.rows; ++i) squares += head.q(i, j) * head.q(i, j);
    largest = std::max(largest, squares);
  }
  return largest;
}

// The bound of one Theta for labels with an error of length one.
double theta_bound(const Factors& factors, const WeakestDirection& weakest, Index head) {
  double squares = 2 * largest_singular_value(head_of(factors, head)) / weakest.values.back();
  for (std::size_t r = 0; r < weakest.values.size(); ++r)
    squares += std::pow(theta_moved(factors, weakest.directions[r], head), 2) / weakest.values[r];
  return std::sqrt(squares);
}

}  // namespace

FactorBars factor_bars(const Split& split, const Factors& given, LabelsAre labels, std::uint64_t seed,
                       Effort& effort) {
  Factors factors = balanced(given, 0, 0, effort.threads());
  const auto problem = effort.context().machine.make_factor_problem(
      {split.train_x, split.train_y, split.tokens}, factors.ranks, effort.context());
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(headlens::copy_of(factors.values.parameters), 0, *point);
  FactorBars out;
  if (!point->finite) return out;
  factors.values.o = headlens::copy_of(point->w);
  problem->linearise(*point);
  const LabelResponse found = label_response(
      *problem, *point,
      {{.count = labels == LabelsAre::exact ? kExactDraws : kNoisyDraws,
        .seed = seed,
        .stream = "error bars of factors",
        .heads = factors.heads()},
       "direction of factors"},
      [&](double curvature) { return std::make_unique<GaugeFixed>(*problem, factors, curvature); }, effort);
  const std::vector<ErrorDraw>& drawn = found.drawn;
  const WeakestDirection& weakest = found.weakest;
  out.resolved = found.resolved;
  if (!out.resolved) return out;
  out.response = weakest.response;
  const double equations = static_cast<double>(problem->rows() * problem->outputs());
  const double spare = equations - factor_unknowns(factors.ranks, factors.dim(), factors.outputs());
  out.noise = std::sqrt(point->squares / std::max(1.0, spare));
  const double left = std::max(std::sqrt(point->squares), kRounding * std::sqrt(problem->y_squares())) *
                      kSafety * (weakest.settled ? 1 : kUnsettled);
  out.label_error = left;
  for (Index i = 0; i < factors.heads(); ++i) {
    std::vector<Product> theta, w;
    for (const ErrorDraw& draw : drawn) {
      theta.push_back(theta_error(factors, draw, i));
      w.push_back(w_error(factors, draw, i));
    }
    const Spread a = spread_of(products_of(theta, product_of), theta[0].a.rows() * theta[0].a.cols()),
                 b = spread_of(products_of(w, product_of), w[0].a.rows() * w[0].a.cols());
    if (labels == LabelsAre::exact)
      out.heads.push_back({left * theta_bound(factors, weakest, i), kLowDraws * left * std::sqrt(b.trace)});
    else
      out.heads.push_back(
          {out.noise * std::sqrt(a.trace * a.quantile), out.noise * std::sqrt(b.trace * b.quantile)});
  }
  return out;
}

double factor_distance(const Factors& a, const Factors& b, int threads) {
  std::vector<double> distances(static_cast<std::size_t>(a.heads()));
  parallel_for(threads, a.heads(), [&](Index i, int) {
    const HeadFactors x = head_of(a, i), y = head_of(b, i);
    // |A - B| from the columns of both: [Q_a, -Q_b] [K_a, K_b]^T.
    Matrix<double> minus_q(y.q.rows, y.q.cols), minus_v(y.v.rows, y.v.cols);
    for (Index r = 0; r < y.q.rows; ++r)
      for (Index c = 0; c < y.q.cols; ++c) minus_q(r, c) = -y.q(r, c);
    for (Index r = 0; r < y.v.rows; ++r)
      for (Index c = 0; c < y.v.cols; ++c) minus_v(r, c) = -y.v(r, c);
    const OwnHead difference{beside(x.q, minus_q.view()), beside(x.k, y.k), beside(x.v, minus_v.view()),
                             transposed(beside(transposed(x.o).view(), transposed(y.o).view()).view())};
    // The SVD of the difference keeps digits that the difference of squares would lose.
    const OwnHead own = balanced(difference);
    double& out = distances[static_cast<std::size_t>(i)];
    out = std::max(theta_norm(own.view()) / std::max(theta_norm(y), 1e-300),
                   w_norm(own.view()) / std::max(w_norm(y), 1e-300));
    if (!std::isfinite(theta_norm(own.view())) || !std::isfinite(w_norm(own.view())))
      out = std::numeric_limits<double>::infinity();
  });
  return distances.empty() ? 0 : *std::max_element(distances.begin(), distances.end());
}

bool factors_come_back(const Split& split, const Factors& factors, std::uint64_t seed, Effort& effort) {
  Factors nudged = balanced(factors, 0, 0, effort.threads());
  const Index size = nudged.values.parameters.rows() * nudged.values.parameters.cols();
  const double entry = std::sqrt(squared_norm(nudged.values.parameters) / static_cast<double>(size));
  Stream stream(seed, "nudge of factors");
  for (Index i = 0; i < size; ++i) nudged.values.parameters.data()[i] += kNudge * entry * stream.normal();
  const PolishOptions options{
      .damping = 1e-8, .ridge = 1e-12, .tolerance = 1e-14, .max_steps = 12, .stall_steps = 5};
  const Polished back = polish(split, nudged, options, "nudge", effort);
  return factor_distance(back.factors, factors, effort.threads()) < kReturned * kNudge;
}

}  // namespace headlens::recovery
