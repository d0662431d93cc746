// Layers up to what their outputs cannot tell: the order of heads, equal heads, absent heads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "headlens/error.hpp"
#include "headlens/layer.hpp"

namespace headlens {
namespace {

constexpr double kWorstCost = 1e100;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double* head(const Array& array, Index i) {
  return array.data<double>() + i * array.dim(1) * array.dim(2);
}
Index head_size(const Array& array) { return array.dim(1) * array.dim(2); }

double norm(const double* a, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += a[j] * a[j];
  return std::sqrt(sum);
}

double distance(const double* a, const double* b, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(sum);
}

double relative_error(const Array& a, Index i, const Array& b, Index j) {
  const Index size = head_size(b);
  const double scale = norm(head(b, j), size);
  const double error = distance(head(a, i), head(b, j), size);
  return scale > 0 ? error / scale : error;
}

// The assignment of rows to columns of least total cost (rows <= columns): shortest augmenting paths with
// potentials (Kuhn 1955; Jonker, Volgenant 1987), O(rows^2 columns). Returns the column of every row.
std::vector<Index> assign(const std::vector<std::vector<double>>& cost) {
  const std::size_t rows = cost.size(), columns = rows ? cost[0].size() : 0;
  std::vector<double> row_price(rows + 1), column_price(columns + 1);
  std::vector<std::size_t> owner(columns + 1), previous(columns + 1);
  for (std::size_t row = 1; row <= rows; ++row) {
    std::vector<double> slack(columns + 1, kInfinity);
    std::vector<bool> used(columns + 1, false);
    std::size_t column = 0;
    owner[0] = row;
    do {
      used[column] = true;
      const std::size_t from = owner[column];
      double step = kInfinity;
      std::size_t next = 0;
      for (std::size_t j = 1; j <= columns; ++j) {
        if (used[j]) continue;
        const double reduced = cost[from - 1][j - 1] - row_price[from] - column_price[j];
        if (reduced < slack[j]) slack[j] = reduced, previous[j] = column;
        if (slack[j] < step) step = slack[j], next = j;
      }
      for (std::size_t j = 0; j <= columns; ++j) {
        if (used[j])
          row_price[owner[j]] += step, column_price[j] -= step;
        else
          slack[j] -= step;
      }
      column = next;
    } while (owner[column] != 0);
    for (; column != 0; column = previous[column]) owner[column] = owner[previous[column]];
  }
  std::vector<Index> out(rows);
  for (std::size_t j = 1; j <= columns; ++j)
    if (owner[j] > 0) out[owner[j] - 1] = static_cast<Index>(j) - 1;
  return out;
}

}  // namespace

AttentionLayer canonical(const AttentionLayer& layer, double tolerance) {
  const Index theta_size = head_size(layer.theta), w_size = head_size(layer.w);
  std::vector<Index> leader;               // the head whose Theta each group has
  std::vector<std::vector<double>> total;  // its summed W
  double largest = 0;
  for (Index i = 0; i < layer.heads(); ++i) {
    std::size_t group = 0;
    for (; group < leader.size(); ++group) {
      const double scale = std::max(norm(head(layer.theta, leader[group]), theta_size),
                                    norm(head(layer.theta, i), theta_size));
      if (distance(head(layer.theta, leader[group]), head(layer.theta, i), theta_size) <= tolerance * scale)
        break;
    }
    if (group == leader.size()) {
      leader.push_back(i);
      total.emplace_back(static_cast<std::size_t>(w_size), 0.0);
    }
    for (Index j = 0; j < w_size; ++j) total[group][static_cast<std::size_t>(j)] += head(layer.w, i)[j];
    largest = std::max(largest, norm(head(layer.w, i), w_size));
  }
  std::vector<double> theta, w;
  Index kept = 0;
  for (std::size_t group = 0; group < leader.size(); ++group) {
    if (norm(total[group].data(), w_size) <= tolerance * largest) continue;
    theta.insert(theta.end(), head(layer.theta, leader[group]),
                 head(layer.theta, leader[group]) + theta_size);
    w.insert(w.end(), total[group].begin(), total[group].end());
    ++kept;
  }
  return {Array::from(theta, {kept, layer.dim(), layer.dim()}),
          Array::from(w, {kept, layer.dim(), layer.outputs()})};
}

Comparison compare_layers(const AttentionLayer& a, const AttentionLayer& b) {
  require(a.dim() == b.dim() && a.outputs() == b.outputs(), "compare: the layers have (d, e) = (", a.dim(),
          ", ", a.outputs(), ") and (", b.dim(), ", ", b.outputs(), ")");
  const AttentionLayer first = canonical(a), second = canonical(b);
  Comparison result{.heads_a = first.heads(), .heads_b = second.heads(), .matches = {}};
  const bool swap = first.heads() > second.heads();  // the assignment gives every row a column
  const Index rows = std::min(first.heads(), second.heads()),
              columns = std::max(first.heads(), second.heads());
  std::vector<std::vector<double>> cost(static_cast<std::size_t>(rows),
                                        std::vector<double>(static_cast<std::size_t>(columns)));
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) {
      const Index i = swap ? c : r, j = swap ? r : c;
      const double sum =
          relative_error(first.theta, i, second.theta, j) + relative_error(first.w, i, second.w, j);
      // An assignment of heads that overflow would never end: no finite cost is the lowest.
      cost[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] = sum < kWorstCost ? sum : kWorstCost;
    }
  const std::vector<Index> columns_of = assign(cost);
  for (Index r = 0; r < rows; ++r) {
    const Index c = columns_of[static_cast<std::size_t>(r)];
    HeadMatch match{swap ? c : r, swap ? r : c, 0, 0};
    match.theta_error = relative_error(first.theta, match.a, second.theta, match.b);
    match.w_error = relative_error(first.w, match.a, second.w, match.b);
    result.worst_theta_error = std::max(result.worst_theta_error, match.theta_error);
    result.worst_w_error = std::max(result.worst_w_error, match.w_error);
    result.matches.push_back(match);
  }
  result.worst_error = rows == columns ? std::max(result.worst_theta_error, result.worst_w_error) : kInfinity;
  return result;
}

}  // namespace headlens
