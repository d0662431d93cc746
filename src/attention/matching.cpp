// Layers up to what their outputs cannot tell: the order of heads, equal heads, absent heads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/head_content.hpp"
#include "attention/magnitude.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"

namespace headlens {
namespace {

constexpr double kWorstCost = 1e100;
constexpr double kSame = 1e-12;  // as canonical() has it by default
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const double* head(const Array& array, Index i) {
  return array.data<double>() + i * array.dim(1) * array.dim(2);
}
Index head_size(const Array& array) { return array.dim(1) * array.dim(2); }

double relative_error(const Array& a, Index i, const Array& b, Index j) {
  const Index size = head_size(b);
  const Magnitude scale = norm_of(head(b, j), size), error = distance_of(head(a, i), head(b, j), size);
  return scale.mantissa > 0 ? ratio(error, scale) : error.value();
}

bool equal_theta(const Array& theta, Index i, Index j, double tolerance) {
  const Index size = head_size(theta);
  const Magnitude error = distance_of(head(theta, i), head(theta, j), size);
  const Magnitude first = norm_of(head(theta, i), size), second = norm_of(head(theta, j), size);
  return error.mantissa == 0 || (first.mantissa > 0 && ratio(error, first) <= tolerance) ||
         (second.mantissa > 0 && ratio(error, second) <= tolerance);
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

// The content of every head (head_content.hpp) in place of Theta, (m, size, 1).
AttentionLayer with_contents(const AttentionLayer& layer) {
  if (layer.variant.plain()) return layer;
  const VariantShape shape = shape_of(layer);
  const Matrix<double> parameters = pack_parameters(layer);
  std::vector<double> all;
  for (Index i = 0; i < layer.heads(); ++i) {
    const std::vector<double> own = content_of(shape, parameters, i);
    all.insert(all.end(), own.begin(), own.end());
  }
  const Index size = static_cast<Index>(all.size()) / layer.heads();
  return {Array::from(all, {layer.heads(), size, 1}), layer.w};
}

// Heads with equal Theta become one, heads without W are dropped.
AttentionLayer merged(const AttentionLayer& layer, double tolerance) {
  const Index theta_size = head_size(layer.theta), w_size = head_size(layer.w);
  std::vector<Index> leader;               // the head whose Theta each group has
  std::vector<std::vector<double>> total;  // its summed W
  Magnitude largest;
  for (Index i = 0; i < layer.heads(); ++i) {
    std::size_t group = 0;
    while (group < leader.size() && !equal_theta(layer.theta, leader[group], i, tolerance)) ++group;
    if (group == leader.size()) {
      leader.push_back(i);
      total.emplace_back(static_cast<std::size_t>(w_size), 0.0);
    }
    for (Index j = 0; j < w_size; ++j) {
      double& sum = total[group][static_cast<std::size_t>(j)];
      sum += head(layer.w, i)[j];
      require(
          std::isfinite(sum), "heads ", leader[group], " and ", i,
          " have the same Theta, and their W add up to more than 1.8e308, the largest number that a double "
          "holds; divide W by a power of two first");
    }
    const Magnitude size = norm_of(head(layer.w, i), w_size);
    if (largest.mantissa == 0 || (size.mantissa > 0 && ratio(size, largest) > 1)) largest = size;
  }
  std::vector<double> theta, w;
  Index kept = 0;
  for (std::size_t group = 0; group < leader.size(); ++group) {
    const Magnitude size = norm_of(total[group].data(), w_size);
    if (size.mantissa == 0 || ratio(size, largest) <= tolerance) continue;
    theta.insert(theta.end(), head(layer.theta, leader[group]),
                 head(layer.theta, leader[group]) + theta_size);
    w.insert(w.end(), total[group].begin(), total[group].end());
    ++kept;
  }
  return {Array::from(theta, {kept, layer.theta.dim(1), layer.theta.dim(2)}),
          Array::from(w, {kept, layer.dim(), layer.outputs()})};
}

// |c_a - c_b| / |c_b|
double constant_error(const AttentionLayer& a, const AttentionLayer& b) {
  if (!b.variant.bias) return 0;
  const Magnitude scale = norm_of(b.constant.data<double>(), b.outputs()),
                  error = distance_of(a.constant.data<double>(), b.constant.data<double>(), b.outputs());
  return scale.mantissa > 0 ? ratio(error, scale) : error.value();
}

}  // namespace

AttentionLayer canonical(const AttentionLayer& layer, double tolerance) {
  require_plain(layer, "the canonical form");
  return merged(layer, tolerance);
}

Comparison compare_layers(const AttentionLayer& a, const AttentionLayer& b) {
  require(a.dim() == b.dim() && a.outputs() == b.outputs(), "compare: the layers have (d, e) = (", a.dim(),
          ", ", a.outputs(), ") and (", b.dim(), ", ", b.outputs(), ")");
  require(
      a.variant.mask == b.variant.mask && a.variant.bias == b.variant.bias &&
          a.variant.rotary == b.variant.rotary &&
          (!a.variant.rotary || a.variant.rotary->pairs(a.q.dim(2)) == b.variant.rotary->pairs(b.q.dim(2))),
      "compare: the layers are of different kinds: ", headlens::name(a.variant), ", and ",
      headlens::name(b.variant));
  const AttentionLayer first = merged(with_contents(a), kSame), second = merged(with_contents(b), kSame);
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
      // An error may be infinite, and an assignment whose costs are all infinite would never end.
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
  result.constant_error = constant_error(a, b);
  result.worst_error = rows == columns
                           ? std::max({result.worst_theta_error, result.worst_w_error, result.constant_error})
                           : kInfinity;
  return result;
}

}  // namespace headlens
