#include "fit/convex/intercept.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headlens/error.hpp"

namespace headlens::training {
namespace {

constexpr double least_share = 9.357622968840175e-14;  // e^-30
constexpr double epsilon = std::numeric_limits<double>::epsilon();

// Rounding errors of a sum behave like a random walk: relative to sum |terms|, sqrt(count) epsilon, with a
// margin.
double rounding(std::size_t count) { return 2 * std::sqrt(static_cast<double>(count)) * epsilon; }

// One column of scores with its targets: b -> L'(f + b), a monotone function.
struct Column {
  std::vector<double> scores, targets, shares;
  double pull = 0;  // of the clamped class share

  struct Slope {
    double slope, size, curvature;  // size: sum |terms|
    bool vanishes(std::size_t count) const { return std::abs(slope) <= rounding(count) * size; }
  };
  Slope at(const LossFunction& loss, double b) const {
    Slope out{pull, std::abs(pull), 0};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto d = loss.at(scores[i] + b, targets[i]);
      out.slope += shares[i] * d.slope;
      out.size += shares[i] * std::abs(d.slope);
      out.curvature += shares[i] * d.curvature;
    }
    return out;
  }
};

struct Bracket {
  double low, high;
};

// Squared, huber and hinge: at b = max (t - f) no example pulls upwards, at b = min (t - f) none downwards.
// Logistic: the mean of sigma(f + b) must equal the share of class 1, which lies between its values at
// b = logit(share) - max f and b = logit(share) - min f.
Bracket bracket(const LossFunction& loss, const Column& column, double share) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i < column.scores.size(); ++i) {
    const double aim =
        loss.kind() == Loss::logistic ? std::log(share) - std::log1p(-share) : column.targets[i];
    low = std::min(low, aim - column.scores[i]);
    high = std::max(high, aim - column.scores[i]);
  }
  return {low, high};
}

// Newton on the monotone slope, bisecting whenever a step leaves the bracket or does not halve the slope. A
// start that is already optimal is kept, so flat optima (hinge, huber) do not make b jump.
double find_root(const LossFunction& loss, const Column& column, Bracket range, double start) {
  double b = std::clamp(start, range.low, range.high);
  double previous = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 200; ++step) {
    const auto here = column.at(loss, b);
    if (here.vanishes(column.scores.size())) break;
    (here.slope > 0 ? range.high : range.low) = b;
    double next = b - here.slope / here.curvature;
    if (!(next > range.low && next < range.high) || std::abs(here.slope) > previous / 2)
      next = range.low + (range.high - range.low) / 2;
    if (next <= range.low || next >= range.high) break;  // neighbouring numbers
    previous = std::abs(here.slope);
    b = next;
  }
  return b;
}

Intercept minimise_columns(const LossFunction& loss, MatrixView<const double> scores,
                           const std::vector<double>& start) {
  Intercept out{start, false};
  for (Index c = 0; c < loss.outputs(); ++c) {
    Column column;
    double positive = 0;
    for (Index i = 0; i < loss.rows(); ++i) {
      if (loss.share(i) == 0) continue;
      column.scores.push_back(scores(i, c));
      column.targets.push_back(loss.target(i, c));
      column.shares.push_back(loss.share(i));
      if (loss.target(i, c) > 0) positive += loss.share(i);
    }
    const double clamped = std::clamp(positive, least_share, 1 - least_share);
    if (loss.kind() == Loss::logistic && clamped != positive) {
      column.pull = positive - clamped;
      out.capped = true;
    }
    out.values[at(c)] = find_root(loss, column, bracket(loss, column, clamped), start[at(c)]);
  }
  return out;
}

// The multinomial in b: value and gradient of L(F + 1 b^T) + <pull, b>.
struct Coupled {
  const LossFunction& loss;
  MatrixView<const double> scores;
  std::vector<double> pull;
  Matrix<double> shifted, slopes;
  double value = 0;
  std::vector<double> gradient;
  double noise = 0;  // the rounding error of the gradient

  void evaluate(const std::vector<double>& b) {
    add_intercept(scores, b, shifted);
    loss.gradient(shifted, slopes);
    value = loss.value(shifted) + std::inner_product(b.begin(), b.end(), pull.begin(), 0.0);
    gradient = pull;
    std::vector<double> size(pull.size(), 0.0);
    for (Index i = 0; i < loss.rows(); ++i)
      for (Index c = 0; c < loss.outputs(); ++c) {
        gradient[at(c)] += slopes(i, c);
        size[at(c)] += std::abs(slopes(i, c));
      }
    noise = rounding(at(loss.rows())) * *std::max_element(size.begin(), size.end());
  }
  double gradient_size() const {
    double size = 0;
    for (const double g : gradient) size = std::max(size, std::abs(g));
    return size;
  }
};

std::vector<double> clamp_pull(const LossFunction& loss) {
  std::vector<double> share(at(loss.outputs()), 0.0), clamped;
  for (Index i = 0; i < loss.rows(); ++i)
    for (Index c = 0; c < loss.outputs(); ++c) share[at(c)] += loss.share(i) * loss.target(i, c);
  clamped = share;
  for (double& s : clamped) s = std::max(s, least_share);
  const double excess =
      std::accumulate(clamped.begin(), clamped.end(), 0.0) - std::accumulate(share.begin(), share.end(), 0.0);
  *std::max_element(clamped.begin(), clamped.end()) -= excess;
  for (std::size_t c = 0; c < share.size(); ++c) share[c] -= clamped[c];
  return share;
}

// The Newton step, no longer than the scores are spread: where a probability is tiny, the exponential tail
// makes it far too long.
std::vector<double> newton_step(const Coupled& problem) {
  double low = 0, high = 0, longest = 0;
  for (Index i = 0; i < problem.loss.rows(); ++i)
    for (Index c = 0; problem.loss.share(i) > 0 && c < problem.loss.outputs(); ++c) {
      low = std::min(low, problem.scores(i, c));
      high = std::max(high, problem.scores(i, c));
    }
  std::vector<double> step =
      InterceptSystem(problem.loss.curvature(problem.shifted).sum()).solve(problem.gradient);
  for (const double s : step) longest = std::max(longest, std::abs(s));
  const double factor = std::min(1.0, (4 + high - low) / longest);
  for (double& s : step) s *= factor;
  return step;
}

// One damped Newton step; false when nothing improves any more.
bool improve(Coupled& problem, std::vector<double>& b) {
  const double value = problem.value, size = problem.gradient_size();
  const std::vector<double> gradient = problem.gradient, step = newton_step(problem);
  const double slope = std::inner_product(step.begin(), step.end(), gradient.begin(), 0.0);
  // Near the optimum the value no longer resolves a step, so only the full one is worth a try; the gradient
  // does.
  const int halvings = slope > 1e-15 * std::abs(value) ? 33 : 0;
  for (int k = 0; k <= halvings; ++k) {
    const double t = std::ldexp(1.0, -k);
    std::vector<double> trial = b;
    for (std::size_t c = 0; c < b.size(); ++c) trial[c] -= t * step[c];
    problem.evaluate(trial);
    if (problem.value <= value - 1e-4 * t * slope || problem.gradient_size() <= size / 2) {
      const bool moved = trial != b;
      b = trial;
      return moved;
    }
  }
  problem.evaluate(b);
  return false;
}

Intercept minimise_coupled(const LossFunction& loss, MatrixView<const double> scores,
                           const std::vector<double>& start) {
  Coupled problem{loss,
                  scores,
                  clamp_pull(loss),
                  Matrix<double>(loss.rows(), loss.outputs()),
                  Matrix<double>(loss.rows(), loss.outputs()),
                  0,
                  {},
                  0};
  Intercept out{start, false};
  for (const double pull : problem.pull) out.capped = out.capped || pull != 0;
  problem.evaluate(out.values);
  for (int step = 0; step < 100 && problem.gradient_size() > problem.noise; ++step)
    if (!improve(problem, out.values)) break;
  const double mean =
      std::accumulate(out.values.begin(), out.values.end(), 0.0) / static_cast<double>(out.values.size());
  for (double& b : out.values) b -= mean;  // the loss does not see a common shift: keep it at 0
  return out;
}

}  // namespace

Intercept minimise_intercept(const LossFunction& loss, MatrixView<const double> scores,
                             const std::vector<double>& start) {
  ensure(static_cast<Index>(start.size()) == loss.outputs(), "intercept: ", start.size(), " values for ",
         loss.outputs(), " outputs");
  return loss.is_multinomial() ? minimise_coupled(loss, scores, start)
                               : minimise_columns(loss, scores, start);
}

void add_intercept(MatrixView<const double> scores, const std::vector<double>& intercept,
                   MatrixView<double> out) {
  for (Index i = 0; i < scores.rows; ++i)
    for (Index c = 0; c < scores.cols; ++c) out(i, c) = scores(i, c) + intercept[at(c)];
}

InterceptSystem::InterceptSystem(Matrix<double> second_derivative) : factor_(std::move(second_derivative)) {
  const Index q = factor_.rows();
  for (Index c = 0; c < q; ++c) scale_.push_back(factor_(c, c) > 0 ? 1 / std::sqrt(factor_(c, c)) : 0);
  for (Index c = 0; c < q; ++c)
    for (Index d = 0; d <= c; ++d) {
      double sum = factor_(c, d) * scale_[at(c)] * scale_[at(d)];
      if (c == d) sum = 1 + 1e-12;
      for (Index k = 0; k < d; ++k) sum -= factor_(c, k) * factor_(d, k);
      factor_(c, d) = c == d ? std::sqrt(std::max(sum, 1e-12)) : sum / factor_(d, d);
    }
}

std::vector<double> InterceptSystem::solve(std::vector<double> rhs) const {
  const Index q = factor_.rows();
  for (Index c = 0; c < q; ++c) {
    double x = rhs[at(c)] * scale_[at(c)];
    for (Index k = 0; k < c; ++k) x -= factor_(c, k) * rhs[at(k)];
    rhs[at(c)] = x / factor_(c, c);
  }
  for (Index c = q; c-- > 0;) {
    double x = rhs[at(c)];
    for (Index k = c + 1; k < q; ++k) x -= factor_(k, c) * rhs[at(k)];
    rhs[at(c)] = x / factor_(c, c);
  }
  for (Index c = 0; c < q; ++c) rhs[at(c)] *= scale_[at(c)];
  return rhs;
}

}  // namespace headlens::training
