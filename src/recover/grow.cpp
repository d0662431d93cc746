#include "recover/grow.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/bounds.hpp"
#include "recover/polish.hpp"

namespace headlens::recovery {
namespace {

constexpr double kApart = 1e-2;       // of Theta: how far a head that may be two is pulled apart
constexpr double kGrowthHelps = 0.1;  // of |residual|: less left by more heads is no chance
constexpr double kSome = 0.7;         // of |residual|^2: the first of two missing heads explains some of it
constexpr int kMostHeads = 3;
constexpr int kFreshStarts = 2;

// theta (d, m d) with one more head.
Matrix<double> append(const Matrix<double>& theta, MatrixView<const double> head) {
  const Index d = theta.rows();
  Matrix<double> out(d, theta.cols() + d);
  copy_rows(theta, out.view().block(0, 0, d, theta.cols()));
  copy_rows(head, out.view().block(0, theta.cols(), d, d));
  return out;
}

// Head i twice, pulled apart along a random direction.
Matrix<double> split_head(const Matrix<double>& theta, Index i, std::uint64_t seed) {
  const Index d = theta.rows();
  const MatrixView<const double> head = theta.view().block(0, i * d, d, d);
  Matrix<double> out = append(theta, head);
  Stream stream(seed, "split", static_cast<std::uint64_t>(i));
  const double size = kApart * std::max(std::sqrt(squared_norm(head)), 0.1) / static_cast<double>(d);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b) {
      const double step = size * stream.normal();
      out(a, i * d + b) += step;
      out(a, theta.cols() + b) -= step;
    }
  return out;
}

// A head of its own for what is left.
Matrix<double> fresh_head(const Split& dense, const Linearisation& at, std::uint64_t seed, int start,
                          Effort& effort) {
  const std::optional<Projected> here = project(dense, at.theta, effort.threads());
  Matrix<double> labels(dense.train_y.rows, dense.train_y.cols);
  const double size = std::sqrt(here->squares / static_cast<double>(labels.rows() * labels.cols()));
  for (Index i = 0; i < labels.rows() * labels.cols(); ++i)
    labels.data()[i] = here->residual.data()[i] / size;
  Split left = dense;
  left.train_y = std::as_const(labels).view();
  const Candidate one = solve_from(left, random_start(at.theta.rows(), 1, seed, start),
                                   {.max_steps = 60, .stall_steps = 8}, "grow", effort);
  return append(at.theta, one.theta);
}

std::optional<Linearisation> one_more(const Split& split, const Linearisation& at, std::uint64_t seed,
                                      Effort& effort) {
  const Index d = at.theta.rows(), m = at.theta.cols() / d;
  if ((m + 1) * d * d > kMostGrown || !can_be_dense(split, m + 1)) return std::nullopt;
  const Split dense = dense_examples(split, m + 1);
  std::optional<Linearisation> best;
  for (Index attempt = 0; attempt < m + kFreshStarts && !effort.must_stop(); ++attempt) {
    const Matrix<double> theta = attempt < m
                                     ? split_head(at.theta, attempt, seed)
                                     : fresh_head(dense, at, seed, static_cast<int>(attempt - m), effort);
    std::optional<Linearisation> more = polish(dense, theta, "grow", effort);
    if (more && (!best || more->squares < best->squares)) best = std::move(more);
    if (best && explained(*best)) break;
  }
  return best;
}

// theta without head i, or with heads i and j as one at their mean.
Matrix<double> without(const Matrix<double>& theta, Index i) {
  const Index d = theta.rows(), m = theta.cols() / d;
  Matrix<double> out(d, (m - 1) * d);
  for (Index a = 0; a < d; ++a) {
    std::copy_n(theta.view().row(a), i * d, out.view().row(a));
    std::copy_n(theta.view().row(a) + (i + 1) * d, (m - i - 1) * d, out.view().row(a) + i * d);
  }
  return out;
}
Matrix<double> merged(const Matrix<double>& theta, Index i, Index j) {  // i < j
  const Index d = theta.rows();
  Matrix<double> out = without(theta, j);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b) out(a, i * d + b) = (theta(a, i * d + b) + theta(a, j * d + b)) / 2;
  return out;
}

// One head less that still explains the labels.
std::optional<Linearisation> one_less(const Split& split, const Linearisation& at, Effort& effort) {
  const Index m = at.theta.cols() / at.theta.rows();
  const Split dense = dense_examples(split, m);
  std::vector<Matrix<double>> attempts;
  for (Index i = 0; i < m; ++i) attempts.push_back(without(at.theta, i));
  for (Index j = 0; j < m; ++j)
    for (Index i = 0; i < j; ++i) attempts.push_back(merged(at.theta, i, j));
  for (const Matrix<double>& theta : attempts) {
    if (effort.must_stop()) break;
    std::optional<Linearisation> fewer = polish(dense, theta, "shed", effort);
    if (fewer && explained(*fewer)) return fewer;
  }
  return std::nullopt;
}

}  // namespace

Linearisation shed(const Split& split, Linearisation at, Effort& effort) {
  while (at.theta.cols() > at.theta.rows()) {
    std::optional<Linearisation> fewer = one_less(split, at, effort);
    if (!fewer) break;
    at = std::move(*fewer);
  }
  return at;
}

std::optional<Linearisation> grow(const Split& split, const Linearisation& from, std::uint64_t seed,
                                  Effort& effort) {
  const auto mean_squares = [](const Linearisation& l) {
    return l.squares / static_cast<double>(l.equations);
  };
  std::optional<Linearisation> at, helpful;
  for (int round = 0; round < kMostHeads; ++round) {
    at = one_more(split, at ? *at : from, seed, effort);
    if (!at) break;
    if (explained(*at)) return round == 0 ? std::move(at) : shed(split, std::move(*at), effort);
    if (mean_squares(*at) > kSome * mean_squares(from)) break;
    if (mean_squares(*at) < kGrowthHelps * kGrowthHelps * mean_squares(helpful ? *helpful : from)) {
      helpful.emplace(std::move(*at));
      at.emplace(*linearise(dense_examples(split, helpful->theta.cols() / from.theta.rows()), helpful->theta,
                            effort.threads()));
    }
  }
  return helpful;
}

}  // namespace headlens::recovery
