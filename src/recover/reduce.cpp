#include "recover/reduce.hpp"

#include "linalg/vector_space.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace headlens::recovery {
namespace {

LmOptions polish_options() { return {.ridge = 1e-12, .mu = 1e-5, .max_steps = 60, .stall_steps = 12}; }

std::vector<double> w_norms(const Candidate& c) {
  const Index d = c.theta.rows();
  std::vector<double> norms;
  for (Index i = 0; i < c.heads(); ++i)
    norms.push_back(std::sqrt(squared_norm(c.w.view().block(i * d, 0, d, c.w.cols()))));
  return norms;
}

// The columns of theta of the heads to keep, in order.
Matrix<double> keep_heads(const Matrix<double>& theta, const std::vector<Index>& kept) {
  const Index d = theta.rows(), m = static_cast<Index>(kept.size());
  Matrix<double> out(d, m * d);
  for (Index a = 0; a < d; ++a)
    for (Index i = 0; i < m; ++i)
      std::copy_n(theta.view().row(a) + kept[static_cast<std::size_t>(i)] * d, d, out.view().row(a) + i * d);
  return out;
}

std::vector<Index> all_but(Index heads, Index left_out) {
  std::vector<Index> kept;
  for (Index i = 0; i < heads; ++i)
    if (i != left_out) kept.push_back(i);
  return kept;
}

struct Pair {
  Index first = 0, second = 1;
  double distance = 1e300;  // of their Theta, relative to the larger
};

Pair closest_pair(const Candidate& c) {
  const Index d = c.theta.rows();
  Pair closest;
  for (Index i = 0; i < c.heads(); ++i)
    for (Index j = 0; j < i; ++j) {
      const MatrixView<const double> a = c.theta.view().block(0, i * d, d, d),
                                     b = c.theta.view().block(0, j * d, d, d);
      const double aa = squared_norm(a), bb = squared_norm(b);
      const double gap =
          std::sqrt(std::max(0.0, aa + bb - 2 * inner_product(a, b)) / std::max({aa, bb, 1e-300}));
      if (gap < closest.distance) closest = {j, i, gap};
    }
  return closest;
}

// The two heads of closest Theta become one, their mean weighted by |W|.
Matrix<double> merge_closest(const Candidate& c, const std::vector<double>& norms) {
  const Index d = c.theta.rows();
  const Pair pair = closest_pair(c);
  const double one = norms[static_cast<std::size_t>(pair.first)],
               other = norms[static_cast<std::size_t>(pair.second)];
  const double share = one + other > 0 ? one / (one + other) : 0.5;
  Candidate merged = copy_of(c);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b)
      merged.theta(a, pair.first * d + b) =
          share * c.theta(a, pair.first * d + b) + (1 - share) * c.theta(a, pair.second * d + b);
  return keep_heads(merged.theta, all_but(c.heads(), pair.second));
}

// Without noise fewer heads must do as well to the last digits, or nearly parallel heads would be merged: 13
// digits, or what the solver left of more heads. With noise: up to the slack.
double acceptable(const Candidate& candidate, double slack) {
  if (candidate.held_out_error > kProof) return candidate.held_out_error * (1 + slack);
  return std::min(kProof, std::max(1e-13, 10 * candidate.held_out_error));
}

}  // namespace

bool looks_degenerate(const Candidate& candidate) {
  if (candidate.heads() < 2) return false;
  const std::vector<double> norms = w_norms(candidate);
  const auto [least, most] = std::minmax_element(norms.begin(), norms.end());
  return *least < 1e-2 * *most || closest_pair(candidate).distance < 0.1;
}

Candidate reduce(const Split& split, Candidate candidate, double slack, Effort& effort) {
  const std::vector<double> norms = w_norms(candidate);
  const double largest = *std::max_element(norms.begin(), norms.end());
  std::vector<Index> kept;
  for (Index i = 0; i < candidate.heads(); ++i)
    if (norms[static_cast<std::size_t>(i)] > 1e-3 * largest) kept.push_back(i);
  if (kept.empty()) return candidate;
  if (static_cast<Index>(kept.size()) < candidate.heads()) {
    Candidate fewer = solve_from(split, keep_heads(candidate.theta, kept), polish_options(), "prune", effort);
    if (fewer.held_out_error < acceptable(candidate, slack)) candidate = std::move(fewer);
  }
  while (candidate.heads() > 1 && !effort.expired()) {
    const std::vector<double> sizes = w_norms(candidate);
    const auto smallest = static_cast<Index>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
    bool removed = false;
    for (const bool merging : {true, false}) {
      Matrix<double> theta = merging ? merge_closest(candidate, sizes)
                                     : keep_heads(candidate.theta, all_but(candidate.heads(), smallest));
      Candidate fewer = solve_from(split, std::move(theta), polish_options(), "merge", effort);
      if (fewer.held_out_error >= acceptable(candidate, slack)) continue;
      candidate = std::move(fewer);
      removed = true;
      break;
    }
    if (!removed) break;
  }
  return candidate;
}

}  // namespace headlens::recovery
