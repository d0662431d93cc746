#include "recover/sculpt/slabs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/parallel.hpp"

namespace headlens::recovery::sculpting {
namespace {

// Weights below this are what the simplex fit makes of rounding and of the error of S.
constexpr double kSmallestWeight = 1e-3;
constexpr double kSecond = 2 * (1 - kOneHot);  // what a head may give another token of a one-hot row
constexpr double kOneHotMiss = 1 - kOneHot;    // |Y_a - x_c S| of a one-hot row, over |(x_b - x_c) S|
constexpr Index kMostHalfSpaces = 64;          // per unknown
constexpr std::size_t kAskCuts = 1024;         // cuts between two questions whether to stop
constexpr double kSmallestError = 1e-9;        // in logits, so that exact cuts can be averaged

double error_of(const Agreement& agreement, Index row, Index first, Index b, Index c) {
  const auto values = agreement.values.view();
  const double* lambda = agreement.lambda.view().row(row);
  const double apart = squared_distance(values.row(first + b), values.row(first + c), values.cols);
  const double delta = std::sqrt(agreement.residual[static_cast<std::size_t>(row)] / apart);
  return std::max(kSmallestError, delta * (1 / lambda[b] + 1 / lambda[c]));
}

// z = x_a v^T up to its sign: x_a and v, each with a positive first entry. `sign` turns z into the key's.
std::vector<double> key_of(const Cuts& cuts, const Cut& cut, double& sign) {
  const Index d = cuts.dim(), first = cut.row / cuts.tokens * cuts.tokens;
  std::vector<double> key(static_cast<std::size_t>(2 * d));
  for (Index j = 0; j < d; ++j) {
    key[static_cast<std::size_t>(j)] = cuts.x(cut.row, j);
    key[static_cast<std::size_t>(d + j)] = cuts.x(first + cut.b, j) - cuts.x(first + cut.c, j);
  }
  sign = 1;
  for (auto half = key.begin(); half != key.end(); half += d) {
    const auto entry = std::find_if(half, half + d, [](double x) { return x != 0; });
    if (entry == half + d || *entry > 0) continue;
    sign = -sign;
    std::transform(half, half + d, half, [](double x) { return -x; });
  }
  return key;
}

// Equal cuts become one: offsets are averaged with weights 1 / error^2. Repeated inputs repeat their error,
// so the mean is no more exact than its parts.
void average_repeated(Cuts& cuts) {
  struct Group {
    Cut first;
    double sign = 1, weight = 0, offset = 0;
  };
  std::vector<Group> groups;
  std::map<std::vector<double>, std::size_t> seen;
  for (const Cut& cut : cuts.slabs) {
    if (groups.size() % kAskCuts == 0) heed();
    double sign = 1;
    const auto [at, fresh] = seen.emplace(key_of(cuts, cut, sign), groups.size());
    if (fresh) groups.push_back({cut, sign});
    Group& group = groups[at->second];
    const double weight = 1 / (cut.error * cut.error);
    group.weight += weight, group.offset += weight * sign * group.sign * cut.offset;
    group.first.count += fresh ? 0 : 1;
  }
  cuts.slabs.clear();
  for (Group& group : groups) {
    group.first.offset = group.offset / group.weight;
    group.first.error = std::sqrt(static_cast<double>(group.first.count) / group.weight);
    cuts.slabs.push_back(group.first);
  }
}

// Every row that is one-hot at c, with the others far enough from it.
void add_half_spaces(const Agreement& agreement, Cuts& cuts) {
  std::vector<std::pair<double, Index>> rows;
  for (std::size_t row = 0; row < agreement.one_hot_score.size(); ++row)
    if (agreement.one_hot_score[row] <= kOneHotMiss * kOneHotMiss)
      rows.emplace_back(-agreement.one_hot_score[row], static_cast<Index>(row));
  const Index k = cuts.tokens, most = kMostHalfSpaces * cuts.unknowns() / std::max<Index>(1, k - 1);
  std::sort(rows.begin(), rows.end());
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(most)));
  for (const auto& [score, row] : rows) {
    const double* lambda = agreement.lambda.view().row(row);
    const Index c = std::max_element(lambda, lambda + k) - lambda;
    for (Index b = 0; b < k; ++b)
      if (b != c) cuts.half_spaces.push_back({row, b, c, std::log(kSecond / (1 - kSecond))});
  }
}

}  // namespace

Cuts cuts_from(const Split& split, const Agreement& agreement, Index count) {
  Cuts cuts{split.train_x, split.tokens, {}, {}, 0};
  const Index k = split.tokens;
  for (Index row = 0; row < cuts.x.rows; ++row) {
    if (!std::isfinite(agreement.residual[static_cast<std::size_t>(row)])) continue;
    const double* lambda = agreement.lambda.view().row(row);
    const Index c = std::max_element(lambda, lambda + k) - lambda;
    for (Index b = 0; b < k; ++b)
      if (b != c && lambda[b] > kSmallestWeight)
        cuts.slabs.push_back(
            {row, b, c, std::log(lambda[b] / lambda[c]), 1, error_of(agreement, row, row / k * k, b, c)});
  }
  average_repeated(cuts);
  std::stable_sort(cuts.slabs.begin(), cuts.slabs.end(),
                   [](const Cut& a, const Cut& b) { return a.error < b.error; });
  add_half_spaces(agreement, cuts);
  return best_of(cuts, count);
}

Cuts best_of(const Cuts& cuts, Index count) {
  Cuts out = cuts;
  out.slabs.resize(std::min(cuts.slabs.size(), static_cast<std::size_t>(std::max<Index>(0, count))));
  if (out.slabs.empty()) return out;
  out.tolerance = out.slabs[out.slabs.size() / 2].error;
  for (Cut& cut : out.slabs) {
    const double share = cut.error / out.tolerance;
    cut.weight = 1 / (1 + share * share);
  }
  return out;
}

void write_normals(const Cuts& cuts, const std::vector<Cut>& which, Index first, MatrixView<double> normals) {
  const Index d = cuts.dim(), k = cuts.tokens;
  for (Index r = 0; r < normals.rows; ++r) {
    const Cut& cut = which[static_cast<std::size_t>(first + r)];
    const double root = std::sqrt(cut.weight);
    const double *xa = cuts.x.row(cut.row), *xb = cuts.x.row(cut.row / k * k + cut.b),
                 *xc = cuts.x.row(cut.row / k * k + cut.c);
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j) normals(r, i * d + j) = root * xa[i] * (xb[j] - xc[j]);
  }
}

}  // namespace headlens::recovery::sculpting
