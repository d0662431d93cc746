#include "recover/certificate/swapped.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headlens::recovery {
namespace {

constexpr double kDifferentBars = 10;  // bars: W that differ by more are different
constexpr double kNone = 1e-9;         // of the largest coordinate of a token: rounding
constexpr Index kMostRows = 20000;
constexpr Index kFewMore = 16;  // tokens beyond d that show a single group

// The tokens in coordinates of d of them: two of the d belong together if some token needs both. Gauss-Jordan
// with the pivots of largest size turns the chosen tokens into unit vectors.
TokenGroups groups_of(MatrixView<const double> tokens, Index rows) {
  TokenGroups out;
  const Index d = tokens.cols;
  Matrix<double> a(d, rows);  // tokens are columns, so that row operations change the basis
  for (Index r = 0; r < rows; ++r)
    for (Index q = 0; q < d; ++q) a(q, r) = tokens(r, q);
  Index rank = 0;
  for (; rank < d; ++rank) {
    heed();
    Index pivot_row = rank, pivot_column = 0;
    for (Index q = rank; q < d; ++q)
      for (Index r = 0; r < rows; ++r)
        if (std::abs(a(q, r)) > std::abs(a(pivot_row, pivot_column))) pivot_row = q, pivot_column = r;
    const double pivot = a(pivot_row, pivot_column);
    if (!(std::abs(pivot) > kNone)) break;
    out.tokens.push_back(pivot_column);
    std::swap_ranges(a.view().row(rank), a.view().row(rank) + rows, a.view().row(pivot_row));
    for (Index r = 0; r < rows; ++r) a(rank, r) /= pivot;
    for (Index q = 0; q < d; ++q) {
      const double factor = a(q, pivot_column);
      if (q == rank || factor == 0) continue;
      for (Index r = 0; r < rows; ++r) a(q, r) -= factor * a(rank, r);
    }
  }
  std::vector<Index> group(static_cast<std::size_t>(rank));
  std::iota(group.begin(), group.end(), Index{0});
  const auto leader = [&](Index q) {
    while (group[static_cast<std::size_t>(q)] != q) q = group[static_cast<std::size_t>(q)];
    return q;
  };
  for (Index r = 0; r < rows; ++r) {
    double largest = 0;
    for (Index q = 0; q < rank; ++q) largest = std::max(largest, std::abs(a(q, r)));
    Index first = -1;
    for (Index q = 0; q < rank; ++q) {
      if (std::abs(a(q, r)) <= kNone * largest) continue;
      if (first < 0) first = leader(q);
      group[static_cast<std::size_t>(leader(q))] = first;
    }
  }
  std::vector<Index> number(static_cast<std::size_t>(rank), -1);
  Index groups = 0;
  for (Index q = 0; q < rank; ++q) {
    Index& own = number[static_cast<std::size_t>(leader(q))];
    if (own < 0) own = groups++;
    out.group.push_back(own);
  }
  return out;
}

}  // namespace

// Where some tokens span all coordinates and form one group, every other token joins that group.
TokenGroups token_groups(MatrixView<const double> tokens) {
  const Index rows = std::min(tokens.rows, kMostRows), few = std::min(rows, tokens.cols + kFewMore);
  TokenGroups out = groups_of(tokens, few);
  const bool settled = static_cast<Index>(out.tokens.size()) == tokens.cols && out.count() == 1;
  return settled || few == rows ? out : groups_of(tokens, rows);
}

Index TokenGroups::count() const {
  return group.empty() ? 0 : 1 + *std::max_element(group.begin(), group.end());
}

namespace {

// Distinct directions of tokens, up to sign; counts no further than `most`.
Index count_lines(MatrixView<const double> tokens, Index most) {
  std::vector<std::vector<double>> lines;
  for (Index row = 0; row < std::min(tokens.rows, kMostRows); ++row) {
    std::vector<double> unit(tokens.row(row), tokens.row(row) + tokens.cols);
    double squares = 0;
    for (const double x : unit) squares += x * x;
    if (squares == 0) continue;
    for (double& x : unit) x /= std::sqrt(squares);
    const bool known = std::any_of(lines.begin(), lines.end(), [&](const std::vector<double>& line) {
      double cosine = 0;
      for (std::size_t q = 0; q < unit.size(); ++q) cosine += unit[q] * line[q];
      return 1 - std::abs(cosine) < kNone;
    });
    if (!known) lines.push_back(std::move(unit));
    if (static_cast<Index>(lines.size()) == most) break;
  }
  return static_cast<Index>(lines.size());
}

double difference_of_w(const Candidate& c, Index i, Index j) {
  const Index d = c.theta.rows();
  double squares = 0;
  for (Index q = 0; q < d; ++q)
    for (Index e = 0; e < c.w.cols(); ++e) squares += std::pow(c.w(i * d + q, e) - c.w(j * d + q, e), 2);
  return std::sqrt(squares);
}

// The largest of |(Theta_i - Theta_j)^T x| / |x| over the tokens x that span this group.
double difference_on_group(const Candidate& c, Index i, Index j, MatrixView<const double> tokens,
                           const TokenGroups& groups, Index group) {
  const Index d = c.theta.rows();
  double largest = 0;
  for (std::size_t t = 0; t < groups.tokens.size(); ++t) {
    if (groups.group[t] != group) continue;
    const double* x = tokens.row(groups.tokens[t]);
    double squares = 0, size = 0;
    for (Index b = 0; b < d; ++b) {
      double sum = 0;
      for (Index a = 0; a < d; ++a) sum += x[a] * (c.theta(a, i * d + b) - c.theta(a, j * d + b));
      squares += sum * sum;
      size += x[b] * x[b];
    }
    largest = std::max(largest, std::sqrt(squares / size));
  }
  return largest;
}

}  // namespace

std::vector<Index> swappable_heads(const Split& examples, const Candidate& candidate,
                                   const std::vector<HeadBound>& bounds) {
  const Index m = candidate.heads(), enough = 2 * candidate.theta.rows();
  if (m < 2) return {};
  const TokenGroups groups = token_groups(examples.train_x);
  const bool few_lines = count_lines(examples.train_x, enough) < enough;
  if (groups.count() < 2 && !few_lines) return {};
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < i; ++j) {
      const HeadBound &a = bounds[static_cast<std::size_t>(i)], &b = bounds[static_cast<std::size_t>(j)];
      if (difference_of_w(candidate, i, j) < kDifferentBars * (a.w + b.w)) return {j, i};
      for (Index group = 0; groups.count() > 1 && group < groups.count(); ++group)
        if (difference_on_group(candidate, i, j, examples.train_x, groups, group) <
            kDifferentBars * (a.theta + b.theta))
          return {j, i};
    }
  return {};
}

}  // namespace headlens::recovery
