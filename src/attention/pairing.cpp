#include "attention/pairing.hpp"

#include <algorithm>
#include <limits>

#include "attention/assignment.hpp"

namespace headlens {
namespace {

constexpr double kWorstCost = 1e100;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Comparison pair_heads(Index heads_a, Index heads_b, const ErrorsOfPair& errors) {
  Comparison result{.heads_a = heads_a, .heads_b = heads_b, .matches = {}};
  const bool swap = heads_a > heads_b;  // the assignment gives every row a column
  const Index rows = std::min(heads_a, heads_b), columns = std::max(heads_a, heads_b);
  std::vector<std::vector<HeadMatch>> pairs(static_cast<std::size_t>(rows));
  std::vector<std::vector<double>> cost(static_cast<std::size_t>(rows));
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) {
      const HeadMatch match = swap ? errors(c, r) : errors(r, c);
      const double sum = match.theta_error + match.w_error;
      pairs[static_cast<std::size_t>(r)].push_back(match);
      // An error may be infinite, and an assignment whose costs are all infinite would never end.
      cost[static_cast<std::size_t>(r)].push_back(sum < kWorstCost ? sum : kWorstCost);
    }
  const std::vector<Index> columns_of = assign(cost);
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    const HeadMatch& match = pairs[r][static_cast<std::size_t>(columns_of[r])];
    result.worst_theta_error = std::max(result.worst_theta_error, match.theta_error);
    result.worst_w_error = std::max(result.worst_w_error, match.w_error);
    result.matches.push_back(match);
  }
  result.worst_error = rows == columns ? std::max(result.worst_theta_error, result.worst_w_error) : kInfinity;
  return result;
}

}  // namespace headlens
