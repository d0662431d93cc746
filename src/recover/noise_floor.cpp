#include "recover/noise_floor.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace headlens {
namespace {

constexpr double kStandardErrors = 1.96;  // of a 95% interval

// One example, as the rows of both parts of the split see it.
struct Labelled {
  const double *x, *y;
};

std::vector<Labelled> all_examples(const Split& split) {
  std::vector<Labelled> out;
  const Index k = split.tokens;
  for (Index row = 0; row < split.train_x.rows; row += k)
    out.push_back({split.train_x.row(row), split.train_y.row(row)});
  for (Index row = 0; row < split.held_x.rows; row += k)
    out.push_back({split.held_x.row(row), split.held_y.row(row)});
  return out;
}

// sum over the group of |Y - mean|^2 per label entry
double spread(const std::vector<Labelled>& group, Index entries) {
  double sum = 0;
  for (Index j = 0; j < entries; ++j) {
    double mean = 0;
    for (const Labelled& example : group) mean += example.y[j] / static_cast<double>(group.size());
    for (const Labelled& example : group) sum += (example.y[j] - mean) * (example.y[j] - mean);
  }
  return sum / static_cast<double>(entries);
}

}  // namespace

NoiseFloor noise_floor(const Split& split) {
  const Index inputs = split.tokens * split.train_x.cols, entries = split.tokens * split.train_y.cols;
  std::vector<Labelled> examples = all_examples(split);
  const auto before = [inputs](const Labelled& a, const Labelled& b) {
    return std::lexicographical_compare(a.x, a.x + inputs, b.x, b.x + inputs);
  };
  std::stable_sort(examples.begin(), examples.end(), before);
  std::vector<double> sums, freedoms;
  for (auto first = examples.begin(); first != examples.end();) {
    const auto end =
        std::find_if(first, examples.end(), [&](const Labelled& e) { return before(*first, e); });
    if (end - first > 1) {
      sums.push_back(spread({first, end}, entries));
      freedoms.push_back(static_cast<double>(end - first - 1));
    }
    first = end;
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
  // The ratio (sum a_i - entries variance) / sum b_i of independent examples, and its error to first order.
  const double excess = squared_norm(residual) / y_squares -
                        floor.variance * entries * static_cast<double>(examples) / y_squares;
  double squares = 0;
  for (Index i = 0; i < examples; ++i) {
    const double a = squared_norm(residual.view().block(i * k, 0, k, e)),
                 b = squared_norm(split.held_y.block(i * k, 0, k, e));
    squares += std::pow(a - entries * floor.variance - excess * b, 2);
  }
  squares += std::pow(entries * static_cast<double>(examples) * floor.variance_error, 2);
  const double reach = kStandardErrors * std::sqrt(squares) / y_squares;
  const auto root = [](double square) { return std::sqrt(std::max(0.0, square)); };
  out.repeats = floor.repeats;
  out.excess_high = root(excess + reach);
  if (floor.repeats == 0) return out;  // all that is known: the excess is no more than the error
  out.noise_floor = root(floor.variance * entries * static_cast<double>(examples) / y_squares);
  out.excess_error = root(excess);
  out.excess_low = root(excess - reach);
  return out;
}

}  // namespace headlens
