// A step function of a hidden linear form -> the heads that compute it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens {
namespace {

constexpr Index kLongestReach = 1000000;

struct Jump {
  double threshold = 0, weight = 0;  // theta_i, w_i: a jump of 2 w_i
};

std::vector<Jump> jumps_of(const std::vector<double>& g) {
  const std::size_t reach = g.size() / 2;
  std::vector<Jump> jumps;
  for (std::size_t i = 0; i + 1 < g.size(); ++i)
    if (g[i + 1] != g[i])
      jumps.push_back({static_cast<double>(i) - static_cast<double>(reach) + 0.5, (g[i + 1] - g[i]) / 2});
  return jumps;
}

Index reach_of(const std::vector<std::int64_t>& weights) {
  Index reach = 0;
  for (const std::int64_t u : weights) {
    require(std::abs(u) <= kLongestReach, "hidden weights: ", u, " given, expected at most ", kLongestReach);
    reach += std::abs(u);
  }
  require(reach >= 1 && reach <= kLongestReach, "hidden weights: their sizes add up to ", reach,
          ", expected 1 to ", kLongestReach);
  return reach;
}

AttentionLayer build(const std::vector<std::int64_t>& weights, const std::vector<Jump>& jumps,
                     double sharpness) {
  const auto m = static_cast<Index>(jumps.size()), d = static_cast<Index>(weights.size());
  AttentionLayer layer{Array(DType::f64, {m, d, d}), Array(DType::f64, {m, d, 1})};
  for (Index i = 0; i < m; ++i) {
    const Jump& jump = jumps[static_cast<std::size_t>(i)];
    double* row = layer.theta.data<double>() + i * d * d;  // of the control; the others are 0
    for (Index j = 0; j < d; ++j)
      row[j] = sharpness / 2 * static_cast<double>(weights[static_cast<std::size_t>(j)]);
    row[0] = -sharpness / 2 * jump.threshold;
    layer.w.data<double>()[i * d] = jump.weight;
  }
  return layer;
}

// |tanh(beta (t - theta_i) / 2) - sign| <= 2 exp(-beta/2), because |t - theta_i| >= 1/2. Rounding adds a few
// units in the last place of every attention p_i, and of the sum of J terms.
double tolerance_of(const std::vector<Jump>& jumps, double sharpness) {
  double largest = 0;
  for (const Jump& jump : jumps) largest = std::max(largest, std::abs(jump.weight));
  const auto count = static_cast<double>(jumps.size());
  return count * largest *
         (2 * std::exp(-sharpness / 2) + 4 * count * std::numeric_limits<double>::epsilon());
}

}  // namespace

double HiddenLabel::operator()(const double* x, const double* other) const {
  const double c = (x[0] - other[0]) / 2;
  if (c == 0) return x[0] * at_rest;
  double t = 0;
  for (std::size_t j = 1; j < weights.size(); ++j)
    t += static_cast<double>(weights[j]) * (x[j] - other[j]) / 2;
  return c * steps.at(static_cast<std::size_t>(static_cast<Index>(c * t) + reach()));
}

HardLayer step_layer(std::vector<std::int64_t> weights, const std::vector<double>& g, double sharpness) {
  require(weights.size() >= 2 && weights.front() == 0,
          "hidden weights: expected two coordinates or more, and 0 for the control, which is the first");
  require(sharpness > 0 && std::isfinite(sharpness), option("sharpness"), ": ", sharpness,
          " given, expected a number above 0");
  const Index reach = reach_of(weights);
  require(static_cast<Index>(g.size()) == 2 * reach + 1, "steps: ", g.size(), " values given, expected ",
          2 * reach + 1, ", one for every t from ", -reach, " to ", reach);
  const std::vector<Jump> jumps = jumps_of(g);
  require(!jumps.empty(), "steps: the function is constant for t from ", -reach, " to ", reach,
          ", so the layer would hide nothing");
  HardLayer hard{build(weights, jumps, sharpness), {std::move(weights), g}};
  const double middle = (g.front() + g.back()) / 2;
  for (double& value : hard.label.steps) value -= middle;
  hard.label.at_rest = (g.back() - g.front()) / 2;
  hard.label.sharpness = sharpness;
  hard.label.tolerance = tolerance_of(jumps, sharpness);
  return hard;
}

HardLayer parity_layer(Index dim, const std::vector<Index>& set, double sharpness, double height) {
  require(dim >= 2, option("dim"), ": ", dim, " given, expected 2 or more");
  std::vector<std::int64_t> weights(static_cast<std::size_t>(dim), 0);
  for (const Index j : set) {
    require(j >= 1 && j < dim && weights[static_cast<std::size_t>(j)] == 0, "hidden set: ", j,
            " given, expected different coordinates from 1 to ", dim - 1);
    weights[static_cast<std::size_t>(j)] = 1;
  }
  const auto reach = static_cast<Index>(set.size());
  std::vector<double> g;
  for (Index t = -reach; t <= reach; ++t) g.push_back(t % 2 == 0 ? height : -height);
  return step_layer(std::move(weights), g, sharpness);
}

std::vector<double> rounding_steps(Index reach, Index modulus, Index levels) {
  std::vector<double> g;
  for (Index t = -reach; t <= reach; ++t) {
    const Index rest = (t % modulus + modulus) % modulus;
    g.push_back(static_cast<double>((2 * levels * rest + modulus) / (2 * modulus) % levels));
  }
  return g;
}

}  // namespace headlens
