#include "recover/certificate/noise_floor.hpp"

#include "linalg/vector_space.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <vector>

namespace headlens::recovery {
namespace {

constexpr double kFloorConfidence = 0.95;

struct Labelled {
  const double *x, *y;
  Index number;  // in the order given
};
using Group = std::vector<Labelled>;  // examples of equal X

void append(MatrixView<const double> x, MatrixView<const double> y, Index tokens, Group& to) {
  for (Index row = 0; row < x.rows; row += tokens)
    to.push_back({x.row(row), y.row(row), static_cast<Index>(to.size())});
}

// By X, and within equal X in the order given; `inputs` numbers in an X.
std::vector<Group> groups_of(Group examples, Index inputs) {
  const auto before = [inputs](const Labelled& a, const Labelled& b) {
    return std::lexicographical_compare(a.x, a.x + inputs, b.x, b.x + inputs);
  };
  std::stable_sort(examples.begin(), examples.end(), before);
  std::vector<Group> out;
  for (const Labelled& example : examples) {
    if (out.empty() || before(out.back().front(), example)) out.emplace_back();
    out.back().push_back(example);
  }
  return out;
}

// sum over the group of |Y - mean|^2 per label entry
double spread(const Group& group, Index entries) {
  double sum = 0;
  for (Index j = 0; j < entries; ++j) {
    double mean = 0;
    for (const Labelled& example : group) mean += example.y[j] / static_cast<double>(group.size());
    for (const Labelled& example : group) sum += (example.y[j] - mean) * (example.y[j] - mean);
  }
  return sum / static_cast<double>(entries);
}

}  // namespace

Examples with_equal_inputs_together(const Examples& examples) {
  const Index n = examples.count(), k = examples.tokens(), d = examples.dim(), e = examples.outputs();
  Group all;
  append({examples.x.data<double>(), n * k, d}, {examples.y.data<double>(), n * k, e}, k, all);
  std::vector<Group> groups = groups_of(std::move(all), k * d);
  if (static_cast<Index>(groups.size()) == n) return examples;
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.front().number < b.front().number; });
  Examples out{Array(DType::f64, {n, k, d}), Array(DType::f64, {n, k, e})};
  double *x = out.x.data<double>(), *y = out.y.data<double>();
  for (const Group& group : groups)
    for (const Labelled& example : group) {
      x = std::copy_n(example.x, k * d, x);
      y = std::copy_n(example.y, k * e, y);
    }
  return out;
}

Split hold_out_whole_inputs(const Examples& examples) {
  const Split plain = hold_out(examples);
  const Index k = plain.tokens, d = plain.train_x.cols, e = plain.train_y.cols;
  const double *x = examples.x.data<double>(), *y = examples.y.data<double>();
  Index train = plain.train_x.rows / k;
  const Index total = train + plain.held_x.rows / k;
  const auto same_as_before = [&](Index i) {
    return std::equal(x + i * k * d, x + (i + 1) * k * d, x + (i - 1) * k * d);
  };
  while (train > 0 && train < total && same_as_before(train)) --train;
  if (train == 0 || train == total) return plain;
  return {{x, train * k, d},
          {y, train * k, e},
          {x + train * k * d, (total - train) * k, d},
          {y + train * k * e, (total - train) * k, e},
          k};
}

NoiseFloor noise_floor(const Split& split) {
  const Index inputs = split.tokens * split.train_x.cols, entries = split.tokens * split.train_y.cols;
  Group all;
  append(split.train_x, split.train_y, split.tokens, all);
  append(split.held_x, split.held_y, split.tokens, all);
  std::vector<double> sums, freedoms;
  for (const Group& group : groups_of(std::move(all), inputs)) {
    if (group.size() == 1) continue;
    sums.push_back(spread(group, entries));
    freedoms.push_back(static_cast<double>(group.size() - 1));
  }
  NoiseFloor out;
  const double freedom = std::accumulate(freedoms.begin(), freedoms.end(), 0.0);
  if (freedom == 0) return out;
  out.repeats = static_cast<Index>(freedom);
  out.variance = std::accumulate(sums.begin(), sums.end(), 0.0) / freedom;
  double squares = 0;  // of what the groups differ by
  for (std::size_t g = 0; g < sums.size(); ++g) squares += std::pow(sums[g] - freedoms[g] * out.variance, 2);
  const double gaussian = out.variance * std::sqrt(2 / (freedom * static_cast<double>(entries)));
  out.variance_error = std::max(gaussian, std::sqrt(squares) / freedom);
  return out;
}

BestFitReport excess_error(const Split& split, const Candidate& candidate, int threads) {
  BestFitReport out;
  const NoiseFloor floor = noise_floor(split);
  const double y_squares = squared_norm(split.held_y);
  if (y_squares == 0) return out;
  const Matrix<double> residual =
      residual_on(split.held_x, split.held_y, split.tokens, candidate.theta, candidate.w, threads);
  const Index k = split.tokens, e = split.held_y.cols, examples = split.held_y.rows / k;
  const double entries = static_cast<double>(k * e);
  // The ratio (sum a_g - entries variance) / sum b_g over groups of equal X, which are independent, and its
  // error to first order.
  const double excess = squared_norm(residual) / y_squares -
                        floor.variance * entries * static_cast<double>(examples) / y_squares;
  Group held;
  append(split.held_x, residual, k, held);
  const std::vector<Group> groups = groups_of(std::move(held), k * split.held_x.cols);
  double squares = 0;
  for (const Group& group : groups) {
    double off = 0;
    for (const Labelled& example : group)
      off += squared_norm({example.y, k, e}) - entries * floor.variance -
             excess * squared_norm(split.held_y.block(example.number * k, 0, k, e));
    squares += off * off;
  }
  squares += std::pow(entries * static_cast<double>(examples) * floor.variance_error, 2);
  const auto root = [](double square) { return std::sqrt(std::max(0.0, square)); };
  out.repeats = floor.repeats;
  if (floor.repeats > 0) {
    out.noise_floor = root(floor.variance * entries * static_cast<double>(examples) / y_squares);
    out.excess_error = root(excess);
  }
  if (groups.size() < 2) return out;
  const auto others = static_cast<double>(groups.size() - 1);
  const double error = std::sqrt(squares * (others + 1) / others) / y_squares;
  const double reach =
      error * boost::math::quantile(boost::math::students_t(others), (1 + kFloorConfidence) / 2);
  out.excess_low = floor.repeats > 0 ? root(excess - reach) : 0;  // all of the error may be noise
  out.excess_high = root(excess + reach);
  return out;
}

}  // namespace headlens::recovery
