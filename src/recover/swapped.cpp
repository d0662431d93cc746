#include "recover/swapped.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headlens {
namespace {

constexpr double kAbove = 10;   // bars: W that differ by more are different
constexpr double kNone = 1e-9;  // of the largest coordinate of a token: rounding
constexpr Index kMostRows = 20000;

}  // namespace

// The tokens in coordinates of d of them: two of the d belong together if some token needs both. Gauss-Jordan
// with the pivots of largest size turns the chosen tokens into unit vectors.
Index independent_groups(MatrixView<const double> tokens) {
  const Index d = tokens.cols, rows = std::min(tokens.rows, kMostRows);
  Matrix<double> a(d, rows);  // tokens are columns, so that row operations change the basis
  for (Index r = 0; r < rows; ++r)
    for (Index q = 0; q < d; ++q) a(q, r) = tokens(r, q);
  Index rank = 0;
  for (; rank < d; ++rank) {
    Index pivot_row = rank, pivot_column = 0;
    for (Index q = rank; q < d; ++q)
      for (Index r = 0; r < rows; ++r)
        if (std::abs(a(q, r)) > std::abs(a(pivot_row, pivot_column))) pivot_row = q, pivot_column = r;
    const double pivot = a(pivot_row, pivot_column);
    if (!(std::abs(pivot) > kNone)) break;
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
  Index groups = 0;
  for (Index q = 0; q < rank; ++q) groups += leader(q) == q;
  return groups;
}

std::vector<Index> swappable_heads(const Split& examples, const Candidate& candidate,
                                   const std::vector<HeadBound>& bounds) {
  const Index d = candidate.theta.rows(), m = candidate.heads(), e = candidate.w.cols();
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < i; ++j) {
      double squares = 0;
      for (Index q = 0; q < d; ++q)
        for (Index c = 0; c < e; ++c)
          squares += std::pow(candidate.w(i * d + q, c) - candidate.w(j * d + q, c), 2);
      const double bar = bounds[static_cast<std::size_t>(i)].w + bounds[static_cast<std::size_t>(j)].w;
      if (std::sqrt(squares) < kAbove * bar && independent_groups(examples.train_x) > 1) return {j, i};
    }
  return {};
}

}  // namespace headlens
