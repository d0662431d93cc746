#include "linalg/min_norm_point.hpp"

#include <algorithm>
#include <cmath>

namespace headlens {
namespace {

constexpr double kGap = 1e-15;        // of the largest |p|^2: less cannot be won in double precision
constexpr double kDependent = 1e-13;  // of the largest |p|^2: a pivot this small is rounding

}  // namespace

// With p_b - p_first as a basis the system stays regular when the hull contains 0, which is the common case:
// there the Gram matrix of the p_b themselves is singular.
bool MinNormPoint::affine_minimiser(MatrixView<const double> gram) {
  const auto size = active_.size();
  target_.assign(size, 0.0);
  const Index first = active_[0];
  const std::size_t n = size - 1;
  differences_.resize(n * n);
  double scale = gram(first, first);
  for (const Index b : active_) scale = std::max(scale, gram(b, b));
  std::vector<double>& a = differences_;
  for (std::size_t i = 0; i < n; ++i) {  // Cholesky, row by row, with the right-hand side carried along
    const Index p = active_[i + 1];
    double rhs = gram(first, first) - gram(p, first);
    for (std::size_t j = 0; j <= i; ++j) {
      const Index q = active_[j + 1];
      double sum = gram(p, q) - gram(p, first) - gram(q, first) + gram(first, first);
      for (std::size_t l = 0; l < j; ++l) sum -= a[i * n + l] * a[j * n + l];
      if (j == i && !(sum > kDependent * scale)) return false;
      a[i * n + j] = j == i ? std::sqrt(sum) : sum / a[j * n + j];
      if (j < i) rhs -= a[i * n + j] * target_[j + 1];
    }
    target_[i + 1] = rhs / a[i * n + i];
  }
  double rest = 1;
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t l = i + 1; l < n; ++l) target_[i + 1] -= a[l * n + i] * target_[l + 1];
    target_[i + 1] /= a[i * n + i];
    rest -= target_[i + 1];
  }
  target_[0] = rest;
  return true;
}

void MinNormPoint::drop_weightless() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < active_.size(); ++i)
    if (weights_[i] > 0) {
      active_[kept] = active_[i];
      weights_[kept++] = weights_[i];
    }
  active_.resize(kept);
  weights_.resize(kept);
}

// Towards the affine minimiser until a weight would turn negative; that point leaves, and again. False if the
// active points are dependent.
bool MinNormPoint::reach_affine_minimiser(MatrixView<const double> gram) {
  while (affine_minimiser(gram)) {
    double step = 1;
    std::size_t blocking = active_.size();
    for (std::size_t i = 0; i < active_.size(); ++i)
      if (target_[i] <= 0) {
        const double reach = weights_[i] / (weights_[i] - target_[i]);
        if (weights_[i] == 0 || reach < step) step = weights_[i] == 0 ? 0 : reach, blocking = i;
      }
    for (std::size_t i = 0; i < active_.size(); ++i) weights_[i] += step * (target_[i] - weights_[i]);
    if (blocking == active_.size()) return true;
    weights_[blocking] = 0;
    drop_weightless();
    if (active_.size() == 1) {
      weights_[0] = 1;
      return true;
    }
  }
  return false;
}

const std::vector<double>& MinNormPoint::solve(MatrixView<const double> gram) {
  const Index k = gram.rows;
  Index shortest = 0;
  double scale = 0;
  for (Index b = 0; b < k; ++b) {
    if (gram(b, b) < gram(shortest, shortest)) shortest = b;
    scale = std::max(scale, gram(b, b));
  }
  active_.assign(1, shortest);
  weights_.assign(1, 1.0);
  for (Index round = 0; round < 8 * k + 32; ++round) {  // far more than ever needed; rounding may cycle
    double square = 0, least = INFINITY;
    Index best = -1;
    for (Index b = 0; b < k; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < active_.size(); ++i) product += weights_[i] * gram(b, active_[i]);
      const auto at = std::find(active_.begin(), active_.end(), b);
      if (at != active_.end())
        square += weights_[static_cast<std::size_t>(at - active_.begin())] * product;
      else if (product < least)
        least = product, best = b;
    }
    if (best < 0 || square - least <= kGap * scale) break;
    active_.push_back(best);
    weights_.push_back(0.0);
    if (!reach_affine_minimiser(gram)) {  // the new point adds nothing that rounding can show
      weights_.back() = 0;
      drop_weightless();
      break;
    }
  }
  lambda_.assign(static_cast<std::size_t>(k), 0.0);
  for (std::size_t i = 0; i < active_.size(); ++i)
    lambda_[static_cast<std::size_t>(active_[i])] = weights_[i];
  return lambda_;
}

}  // namespace headlens
