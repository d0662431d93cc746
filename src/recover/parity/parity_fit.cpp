// Sharpness and heights of a parity layer whose set is known: least squares in one unknown.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "recover/parity/parity.hpp"

namespace headlens::recovery {
namespace {

constexpr double kLeastSharpness = 0.25;
constexpr int kGrid = 64;
constexpr double kSeen = 1e-12;  // relative change of the labels that float64 can tell

// G(t) = sum_i w_i tanh(beta (t - theta_i) / 2) of the steps (-1)^t, |t| <= size, and dG / dbeta.
struct StepPart {
  double value = 0, slope = 0;
};
StepPart step_at(Index size, Index t, double sharpness) {
  StepPart out;
  for (Index left = -size; left < size; ++left) {
    const double weight = left % 2 == 0 ? -1 : 1;  // half of the jump from (-1)^left
    const double distance = static_cast<double>(t) - (static_cast<double>(left) + 0.5);
    const double step = std::tanh(sharpness * distance / 2);
    out.value += weight * step;
    out.slope += weight * (1 - step * step) * distance / 2;
  }
  return out;
}

// |t| of example i.
Index size_of_sum(const ActiveExamples& active, const std::vector<Index>& set, Index i) {
  Index t = 0;
  for (const Index j : set) t += active.differences(j, i);
  return std::abs(t);
}

// The labels depend on |t| alone: their sums for each.
struct Levels {
  std::vector<double> counts;  // of |t| = 0 .. size
  Matrix<double> sums;         // (e, size + 1)

  Index size() const { return sums.cols() - 1; }
};
Levels levels_of(const ActiveExamples& active, const std::vector<Index>& set) {
  const auto size = static_cast<Index>(set.size()), outputs = active.labels.rows();
  Levels out{std::vector<double>(static_cast<std::size_t>(size + 1), 0),
             Matrix<double>::zeros(outputs, size + 1)};
  for (Index i = 0; i < active.count(); ++i) {
    const Index t = size_of_sum(active, set, i);
    ++out.counts[static_cast<std::size_t>(t)];
    for (Index c = 0; c < outputs; ++c) out.sums(c, t) += active.labels(c, i);
  }
  return out;
}

struct Fitted {
  double residual = 0;          // what the best heights leave, less a constant
  double newton = 0;            // Gauss-Newton step of the sharpness
  double seen = 0;              // |beta dG/dbeta| / |G|
  std::vector<double> heights;  // of every output
};

Fitted fit_at(const Levels& levels, double sharpness) {
  std::vector<StepPart> steps;
  double gg = 0, gs = 0, ss = 0;
  for (Index t = 0; t <= levels.size(); ++t) {
    steps.push_back(step_at(levels.size(), t, sharpness));
    const double n = levels.counts[static_cast<std::size_t>(t)];
    gg += n * steps.back().value * steps.back().value;
    gs += n * steps.back().value * steps.back().slope;
    ss += n * steps.back().slope * steps.back().slope;
  }
  Fitted out;
  if (!(gg > 0)) return out;
  double descent = 0, curvature = 0;
  for (Index c = 0; c < levels.sums.rows(); ++c) {
    double gv = 0, sv = 0;
    for (Index t = 0; t <= levels.size(); ++t) {
      gv += steps[static_cast<std::size_t>(t)].value * levels.sums(c, t);
      sv += steps[static_cast<std::size_t>(t)].slope * levels.sums(c, t);
    }
    const double h = gv / gg;
    out.heights.push_back(h);
    out.residual -= h * gv;
    // <v - h G, h dG> and |h dG|^2, both without their part along G.
    descent += h * (sv - h * gs);
    curvature += h * h * (ss - gs * gs / gg);
  }
  out.seen = sharpness * std::sqrt(ss / gg);
  if (curvature > 0) out.newton = descent / curvature;
  return out;
}

}  // namespace

ParityFit fit_parity(const ActiveExamples& active, const std::vector<Index>& set) {
  const Levels levels = levels_of(active, set);
  double best = kMostSharpness;
  Fitted fitted = fit_at(levels, best);
  for (int i = 0; i < kGrid; ++i) {
    const double sharpness = kLeastSharpness * std::pow(kMostSharpness / kLeastSharpness, i / double{kGrid});
    Fitted other = fit_at(levels, sharpness);
    if (other.residual < fitted.residual) best = sharpness, fitted = std::move(other);
  }
  for (int step = 0; step < 60; ++step) {
    const double next = std::clamp(best + fitted.newton, std::max(kLeastSharpness, best / 2),
                                   std::min(kMostSharpness, 2 * best));
    Fitted other = fit_at(levels, next);
    if (next == best || other.heights.empty()) break;
    best = next, fitted = std::move(other);
  }
  return {best, fitted.seen > kSeen, fitted.heights};
}

double squared_error(const ActiveExamples& active, const std::vector<Index>& set, const ParityFit& fit) {
  const auto size = static_cast<Index>(set.size());
  std::vector<double> steps;
  for (Index t = 0; t <= size; ++t) steps.push_back(step_at(size, t, fit.sharpness).value);
  double sum = 0;
  for (Index i = 0; i < active.count(); ++i) {
    const double step = steps[static_cast<std::size_t>(size_of_sum(active, set, i))];
    for (Index c = 0; c < active.labels.rows(); ++c) {
      const double miss = fit.heights[static_cast<std::size_t>(c)] * step - active.labels(c, i);
      sum += miss * miss;
    }
  }
  return sum;
}

}  // namespace headlens::recovery
