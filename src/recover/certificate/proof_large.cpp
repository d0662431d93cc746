// Bounds for problems whose Jacobian is too large to hold. With the lowest eigenvalues l_1 <= .. <= l_b of
// H = J^T P_perp J and v_r their directions, every head's block of H^-1 is at most
//
//   sum_r v_r v_r^T / l_r + 1 / l_b,
//
// because all other eigenvalues are larger than l_b. Errors of W follow those of Theta; their size is taken
// from draws (error_bars.hpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/vector_space.hpp"
#include "recover/certificate/distinct.hpp"
#include "recover/certificate/error_bars.hpp"
#include "recover/certificate/mirror.hpp"
#include "recover/certificate/nudge.hpp"
#include "recover/certificate/proof.hpp"
#include "recover/certificate/swapped.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/verdict.hpp"
#include "recover/certificate/weakest_direction.hpp"

namespace headlens::recovery {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr double kSafety = 4;        // beyond first order, what the fit absorbed, and eigenvalues found to 1%
constexpr double kUnsettled = 4;     // times: an eigenvalue that was still falling
constexpr double kResolved = 1e-11;  // of the largest eigenvalue: below it products with H are rounding

double largest_eigenvalue(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                          const Matrix<double>& start) {
  const std::unique_ptr<backend::LinearModel> model = problem.make_linear_model();
  model->move_to(point);
  Matrix<double> v = copy_of(start), next(v.rows(), v.cols());
  double value = 0;
  for (int step = 0; step < 10; ++step) {
    const double size = std::sqrt(squared_norm(v));
    for (Index i = 0; i < v.rows() * v.cols(); ++i) v.data()[i] /= size;
    model->normal_product(v, next);
    value = std::sqrt(squared_norm(next));
    std::swap(v, next);
  }
  return value;
}

// The bounds of one head, from the lowest eigenvalues and the draws of errors.
HeadBound bound_of_head(const WeakestDirection& weakest, const ErrorBars& bars, double left, Index head) {
  double squares = 0;
  for (std::size_t r = 0; r < weakest.values.size(); ++r)
    squares += head_shares(weakest.directions[r])[static_cast<std::size_t>(head)] / weakest.values[r];
  squares += 1 / weakest.values.back();
  return {left * std::sqrt(squares), kSafety * bars.heads[static_cast<std::size_t>(head)].w};
}

// Bounds over the size of the head, in the coordinates of the user: Theta_ab is weighed by weight_a weight_b.
HeadBound relative_to_head(const HeadBound& bound, const backend::LayerPoint& point,
                           const std::vector<double>& weights, Index head) {
  const Index d = point.parameters.rows();
  double theta = 0, w = 0;
  for (Index a = 0; a < d; ++a) {
    const double weight = weights[static_cast<std::size_t>(a)];
    for (Index b = 0; b < d; ++b)
      theta += std::pow(weight * weights[static_cast<std::size_t>(b)] * point.parameters(a, head * d + b), 2);
    for (Index c = 0; c < point.w.cols(); ++c) w += std::pow(weight * point.w(head * d + a, c), 2);
  }
  return {relative_to_truth(bound.theta, std::sqrt(theta)), relative_to_truth(bound.w, std::sqrt(w))};
}

}  // namespace

Proof prove_large(const Split& split, const Candidate& candidate, const std::vector<double>& weights,
                  std::uint64_t seed, Effort& effort) {
  const Index m = candidate.heads();
  Proof proof;
  std::vector<HeadBound> bounds;
  for (Index i = 0; i < m; ++i) proof.heads.push_back(i);
  proof.doubt = Doubt::wide_bars;
  const Split enough = first_examples(split, m);
  const std::unique_ptr<backend::LayerProblem> problem = pose(enough, m, effort);
  const std::unique_ptr<backend::LayerPoint> held = problem->make_point();
  backend::LayerPoint& point = *held;
  problem->evaluate(copy_of(candidate.theta), 0, point);
  problem->linearise(point);
  if (!point.finite) return proof;
  const auto stop = [&] { return effort.must_stop(); };
  const ErrorBars bars = error_bars(*problem, point, ResidualIs::anything, seed, stop);
  const WeakestDirection weakest = weakest_direction(*problem, point, bars.draws, stop);
  effort.inner += bars.inner + weakest.products;
  if (stop()) {
    proof.doubt = Doubt::out_of_time;
    return proof;
  }
  if (!weakest.directions.empty()) proof.shares = head_shares(weakest.directions[0]);
  proof.heads.clear();
  const double largest = largest_eigenvalue(*problem, point, bars.draws[0]);
  const double left = std::sqrt(point.squares) * (weakest.settled ? kSafety : kSafety * kUnsettled);
  proof.response = weakest.response;
  const bool resolved = !weakest.values.empty() && weakest.values[0] > kResolved * largest;
  for (Index i = 0; i < m; ++i) {
    bounds.push_back(resolved ? bound_of_head(weakest, bars, left, i) : HeadBound{kNoBound, kNoBound});
    proof.relative.push_back(relative_to_head(bounds.back(), point, weights, i));
    if (!(std::max(proof.relative.back().theta, proof.relative.back().w) < kWidestBar))
      proof.heads.push_back(i);
  }
  proof.pools_mean.assign(static_cast<std::size_t>(m), false);
  if (!proof.heads.empty()) return proof;
  Ambiguity other = find_ambiguity(split, {enough, enough, left, bounds}, candidate);
  if (other.doubt != Doubt::none) {
    proof.doubt = other.doubt;
    proof.heads = std::move(other.heads);
    return proof;
  }
  proof.doubt = last_doubt(
      explained(split, candidate, effort.threads()),
      [&] { return returns_after_nudge(enough, candidate, seed, effort); }, effort);
  return proof;
}

}  // namespace headlens::recovery
