// Small random problems with everything in memory, and slow references for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fit/convex/loss.hpp"
#include "linalg/block_operator.hpp"

namespace headlens::small_convex {

using training::LossFunction;

enum class Case { squared, huber, binary_logistic, multinomial, binary_hinge, many_hinge };
inline const std::vector<Case> all_cases = {Case::squared,     Case::huber,        Case::binary_logistic,
                                            Case::multinomial, Case::binary_hinge, Case::many_hinge};
inline const std::vector<Case> smooth_cases = {Case::squared, Case::huber, Case::binary_logistic,
                                               Case::multinomial};
inline std::string name(Case kind) {
  static const char* const names[] = {"squared",     "huber",        "binary logistic",
                                      "multinomial", "binary hinge", "hinge of 4 classes"};
  return names[static_cast<int>(kind)];
}

struct SmallProblem {
  Index n, p;
  Matrix<double> features;  // Phi

  SmallProblem(Index rows, Index columns, std::uint64_t seed) : n(rows), p(columns), features(rows, columns) {
    Stream random(seed, "small problem");
    for (Index i = 0; i < n * p; ++i) features.data()[i] = random.normal();
  }
  BlockOperator forward() const {
    return [this](MatrixView<const double> in, MatrixView<double> out) {
      for (Index i = 0; i < n; ++i)
        for (Index c = 0; c < in.cols; ++c) {
          out(i, c) = 0;
          for (Index j = 0; j < p; ++j) out(i, c) += features(i, j) * in(j, c);
        }
    };
  }
  BlockOperator adjoint() const {
    return [this](MatrixView<const double> in, MatrixView<double> out) {
      for (Index j = 0; j < p; ++j)
        for (Index c = 0; c < in.cols; ++c) {
          out(j, c) = 0;
          for (Index i = 0; i < n; ++i) out(j, c) += features(i, j) * in(i, c);
        }
    };
  }
  BlockOperator kernel() const {
    return [this](MatrixView<const double> in, MatrixView<double> out) {
      Matrix<double> middle(p, in.cols);
      adjoint()(in, middle);
      forward()(middle, out);
    };
  }
  // Targets that depend on the features, so that fits are neither perfect nor useless. Regression: 2 outputs.
  LossFunction loss(Case kind, std::uint64_t seed) const {
    Stream random(seed, "small targets");
    Matrix<double> y(n, 2);
    std::vector<Index> two, four;
    for (Index i = 0; i < n; ++i) {
      const double signal = features(i, 0) - 0.5 * features(i, p - 1) + 0.7 * random.normal();
      y(i, 0) = signal + 1;
      y(i, 1) = random.normal() - 2;
      two.push_back(i < 2 ? i % 2 : signal > 0.2);
      four.push_back(i < 4 ? i % 4 : signal < -1 ? 0 : signal < 0 ? 1 : signal < 1 ? 2 : 3);
    }
    switch (kind) {
      case Case::squared:
        return LossFunction::regression(Loss::squared, y);
      case Case::huber:
        return LossFunction::regression(Loss::huber, y, 0.5);
      case Case::binary_logistic:
        return LossFunction::classification(Loss::logistic, two, 2);
      case Case::multinomial:
        return LossFunction::classification(Loss::logistic, four, 4);
      case Case::binary_hinge:
        return LossFunction::classification(Loss::hinge, two, 2);
      default:
        return LossFunction::classification(Loss::hinge, four, 4);
    }
  }
};

enum class WithIntercept { no, yes };

struct PrimalPoint {
  std::vector<double> v, b;  // V (p x q), b (q)
};

inline Matrix<double> scores_of(const SmallProblem& problem, const PrimalPoint& at, Index q) {
  Matrix<double> scores(problem.n, q);
  problem.forward()({at.v.data(), problem.p, q}, scores);
  for (Index i = 0; i < problem.n; ++i)
    for (Index c = 0; c < q; ++c) scores(i, c) += at.b[static_cast<std::size_t>(c)];
  return scores;
}

inline double objective(const SmallProblem& problem, const LossFunction& loss, double ridge,
                        const PrimalPoint& at) {
  double norm = 0;
  for (const double x : at.v) norm += x * x;
  return loss.value(scores_of(problem, at, loss.outputs())) + ridge * norm;
}

// Plain gradient descent with step 1 / L, L = bound max_i share_i (|Phi|_F^2 + n) + 2 ridge; `project` may
// restrict V. Per step the error falls by 1 - mu / L.
template <class Project>
PrimalPoint descend(const SmallProblem& problem, const LossFunction& loss, double ridge,
                    WithIntercept intercept, int steps, Project project) {
  const Index q = loss.outputs();
  double size = static_cast<double>(problem.n);
  for (Index i = 0; i < problem.n * problem.p; ++i)
    size += problem.features.data()[i] * problem.features.data()[i];
  double share = 0;
  for (Index i = 0; i < problem.n; ++i) share = std::max(share, loss.share(i));
  const double step = 1 / (loss.curvature_bound() * share * size + 2 * ridge);
  PrimalPoint at{std::vector<double>(static_cast<std::size_t>(problem.p * q), 0.0),
                 std::vector<double>(static_cast<std::size_t>(q), 0.0)};
  Matrix<double> slopes(problem.n, q), slope(problem.p, q);
  const BlockOperator adjoint = problem.adjoint();
  for (int k = 0; k < steps; ++k) {
    loss.gradient(scores_of(problem, at, q), slopes);
    adjoint(slopes, slope);
    for (std::size_t j = 0; j < at.v.size(); ++j) at.v[j] -= step * (slope.data()[j] + 2 * ridge * at.v[j]);
    for (Index i = 0; intercept == WithIntercept::yes && i < problem.n; ++i)
      for (Index c = 0; c < q; ++c) at.b[static_cast<std::size_t>(c)] -= step * slopes(i, c);
    project(at.v);
  }
  return at;
}

// The optimum of the hinge, from below: the dual sum c a - |sum s c a phi|^2 / (4 ridge), 0 <= a <= 1, by
// exact ascent along one coordinate, or along pairs that keep sum s c a = 0. One class column at a time.
inline double hinge_dual_optimum(const SmallProblem& problem, const LossFunction& loss, double ridge,
                                 WithIntercept intercept, int sweeps) {
  double total = 0;
  const auto n = static_cast<std::size_t>(problem.n);
  for (Index c = 0; c < loss.outputs(); ++c) {
    std::vector<double> alpha(n, 0.0),
        v(static_cast<std::size_t>(problem.p), 0.0);  // alpha = c a, v = sum s alpha phi
    const auto phi = [&](std::size_t i, Index j) { return problem.features(static_cast<Index>(i), j); };
    const auto sign = [&](std::size_t i) { return loss.target(static_cast<Index>(i), c); };
    const auto bound = [&](std::size_t i) { return loss.share(static_cast<Index>(i)); };
    // moves alpha_i by t and alpha_j by -t s_i s_j (j = i: alone)
    const auto move = [&](std::size_t i, std::size_t j) {
      const bool pair = i != j;
      const double other = pair ? -sign(i) * sign(j) : 0;
      double slope = 1 + other, square = 0;
      for (Index k = 0; k < problem.p; ++k) {
        const double d = sign(i) * (phi(i, k) - (pair ? phi(j, k) : 0));
        slope -= d * v[static_cast<std::size_t>(k)] / (2 * ridge);
        square += d * d / (2 * ridge);
      }
      double low = -alpha[i], high = bound(i) - alpha[i];
      if (pair) {
        low = std::max(low, other > 0 ? -alpha[j] : alpha[j] - bound(j));
        high = std::min(high, other > 0 ? bound(j) - alpha[j] : alpha[j]);
      }
      const double t = std::clamp(square > 0 ? slope / square : (slope > 0 ? high : low), low, high);
      for (Index k = 0; k < problem.p; ++k)
        v[static_cast<std::size_t>(k)] += t * sign(i) * (phi(i, k) - (pair ? phi(j, k) : 0));
      alpha[i] += t;
      if (pair) alpha[j] += other * t;
    };
    for (int sweep = 0; sweep < sweeps; ++sweep)
      for (std::size_t i = 0; i < n; ++i) {
        if (intercept == WithIntercept::no) move(i, i);
        for (std::size_t j = i + 1; intercept == WithIntercept::yes && j < n; ++j) move(i, j);
      }
    for (const double a : alpha) total += a;
    for (const double x : v) total -= x * x / (4 * ridge);
  }
  return total;
}

}  // namespace headlens::small_convex
