#include "theory/head_curve.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/cholesky.hpp"

namespace headlens {
namespace {

constexpr Index kMostHeads = Index{1} << 30;

}  // namespace

struct HeadCurve::State {
  std::vector<double> features;  // f_g
  double kappa = 0;
  std::vector<double> u, slope;  // u_g, u_g + u'_g
  std::vector<double> left;      // r_i
  std::vector<double> load;      // sum_i lambda_gi r_i
  Matrix<double> jacobian;       // of the equations for u, row g times f_g / u_g: symmetric, positive
  double freedom = 0, square_freedom = 0;  // z, q

  // r, loads and the Jacobian at u. Off the diagonal it is -sum_i lambda_gi lambda_ki r_i^2.
  void evaluate(const HeadSpectrum& spectrum) {
    const std::size_t groups = features.size();
    left.assign(spectrum.levels.size(), 0.0);
    load = spectrum.rest;
    jacobian = Matrix<double>::zeros(static_cast<Index>(groups), static_cast<Index>(groups));
    for (std::size_t i = 0; i < left.size(); ++i) {
      const HeadLevel& level = spectrum.levels[i];
      double sum = 1;
      for (std::size_t g = 0; g < groups; ++g) sum += u[g] * level.eigenvalues[g];
      left[i] = 1 / sum;
      for (std::size_t g = 0; g < groups; ++g) {
        if (level.eigenvalues[g] <= 0) continue;  // its multiplicity may be infinite
        const double part = level.eigenvalues[g] * level.multiplicity * left[i];
        load[g] += part;
        for (std::size_t k = 0; k <= g; ++k)
          jacobian(static_cast<Index>(g), static_cast<Index>(k)) -= part * left[i] * level.eigenvalues[k];
      }
    }
    for (std::size_t g = 0; g < groups; ++g)
      jacobian(static_cast<Index>(g), static_cast<Index>(g)) += (features[g] * kappa + load[g]) / u[g];
  }

  // The solution of jacobian x = right.
  std::vector<double> solve(std::vector<double> right) {
    const Index groups = static_cast<Index>(right.size());
    ensure(cholesky(jacobian, 1).ok(), "the equations of the groups of features are singular");
    cholesky_solve(jacobian, {right.data(), groups, 1}, 1);
    return right;
  }
};

HeadCurve::HeadCurve(HeadSpectrum spectrum, const std::vector<TargetPart>& parts, double noise)
    : spectrum_(std::move(spectrum)), squares_(spectrum_.levels.size(), 0.0), unseen_(noise * noise) {
  for (const TargetPart& part : parts) {
    if (part.query_degree + part.key_degree == 0) continue;  // the intercept's
    double* place = &unseen_;
    for (std::size_t i = 0; i < squares_.size(); ++i)
      if (spectrum_.levels[i].query_degree == part.query_degree &&
          spectrum_.levels[i].key_degree == part.key_degree)
        place = &squares_[i];
    *place += std::exp(part.log_square);
  }
}

// Newton's method; where it would leave u > 0, the step u = 1 / (kappa + load / f), which always converges.
void HeadCurve::solve_groups(State& s) const {
  for (int step = 0; step < 500; ++step) {
    heed();
    s.evaluate(spectrum_);
    std::vector<double> next(s.u.size()), simple(s.u.size());
    for (std::size_t g = 0; g < s.u.size(); ++g) {
      next[g] = (s.features[g] * (1 - s.kappa * s.u[g]) - s.load[g] * s.u[g]) / s.u[g];
      simple[g] = 1 / (s.kappa + s.load[g] / s.features[g]);
    }
    next = s.solve(next);
    bool inside = true;
    double change = 0;
    for (std::size_t g = 0; g < s.u.size(); ++g) inside = inside && s.u[g] + next[g] > 0.1 * s.u[g];
    for (std::size_t g = 0; g < s.u.size(); ++g) {
      const double value = inside ? s.u[g] + next[g] : simple[g];
      change = std::max(change, std::abs(value / s.u[g] - 1));
      s.u[g] = value;
    }
    if (change < 1e-12) return;
  }
}

// d / d log kappa of f_g (kappa u_g + u_g load_g / f_g) = f_g, divided by u_g:  jacobian u' = -f kappa.
void HeadCurve::solve_derivatives(State& s) const {
  s.evaluate(spectrum_);
  std::vector<double> right;
  for (const double features : s.features) right.push_back(-features * s.kappa);
  s.slope = s.solve(right);
  s.freedom = s.square_freedom = 0;
  for (std::size_t g = 0; g < s.u.size(); ++g) {
    s.slope[g] += s.u[g];
    s.freedom += s.features[g] * (1 - s.kappa * s.u[g]);
    s.square_freedom -= s.features[g] * s.kappa * s.slope[g];
  }
  s.square_freedom += s.freedom;
}

double HeadCurve::error(Index samples, Index heads, double ridge) const {
  const double n = static_cast<double>(samples), wanted = n - 1, delta = n * ridge;
  State s;
  for (const double share : spectrum_.features) s.features.push_back(share * static_cast<double>(heads));
  double low = std::log(delta / wanted), high = std::log((spectrum_.trace + delta) / wanted), at = high;
  s.u.assign(s.features.size(), std::exp(-at));
  for (int step = 0; step < 200; ++step) {
    s.kappa = std::exp(at);
    solve_groups(s);
    solve_derivatives(s);
    const double value = s.freedom + delta / s.kappa - wanted;
    const double next = at - value / (s.square_freedom - s.freedom - delta / s.kappa);
    (value > 0 ? low : high) = at;
    if (std::abs(next - at) < 1e-12 || high - low < 1e-13) break;
    at = next > low && next < high ? next : 0.5 * (low + high);
  }
  double missed = unseen_;
  for (std::size_t i = 0; i < squares_.size(); ++i) {
    if (squares_[i] == 0) continue;
    double noise = 1;
    for (std::size_t g = 0; g < s.u.size(); ++g) noise += s.slope[g] * spectrum_.levels[i].eigenvalues[g];
    missed += squares_[i] * s.left[i] * s.left[i] * noise;
  }
  return (1 + 1 / n) * missed / (1 - s.square_freedom / wanted);
}

Prediction HeadCurve::best(Index samples, Index heads) const {
  return best_of_grid(spectrum_.trace, samples, [&](double ridge) { return error(samples, heads, ridge); });
}

std::optional<Index> HeadCurve::heads_for(Index samples, double mean_square) const {
  if (!std::isfinite(mean_square)) return std::nullopt;  // the variance overflows, and says nothing
  const auto enough = [&](Index heads) { return best(samples, heads).mean_square <= mean_square; };
  Index high = 1;
  while (!enough(high)) {
    if (high == kMostHeads) return std::nullopt;
    high *= 2;
  }
  Index low = high / 2;  // too few
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace headlens
