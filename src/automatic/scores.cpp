#include "automatic/scores.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/normal.hpp"
#include "base/parallel.hpp"

namespace headlens::automatic {
namespace {

constexpr double kFurthest = 3;  // deviations: the scores of the smallest and the largest value

// Quantiles of sorted values at even steps of the normal score; the ends are the smallest and the largest.
void fill_knots(const std::vector<double>& sorted, double* knots, double* scores) {
  const auto size = static_cast<double>(sorted.size());
  for (Index k = 0; k < kKnots; ++k) {
    scores[k] = kFurthest * (2 * static_cast<double>(k) / (kKnots - 1) - 1);
    const auto at = static_cast<std::size_t>(normal_probability(scores[k]) * size);
    knots[k] = sorted[std::min(at, sorted.size() - 1)];
  }
  knots[0] = sorted.front();
  knots[kKnots - 1] = sorted.back();
  for (Index begin = 0, end = 0; begin < kKnots; begin = end) {
    double sum = 0;
    for (end = begin; end < kKnots && knots[end] == knots[begin]; ++end) sum += scores[end];
    std::fill(scores + begin, scores + end, sum / static_cast<double>(end - begin));
  }
}

double interpolate(const double* knots, const double* scores, double value) {
  const Index above = std::upper_bound(knots, knots + kKnots, value) - knots;
  if (above == 0) return scores[0];
  if (above == kKnots) return scores[kKnots - 1];
  const double slope = (scores[above] - scores[above - 1]) / (knots[above] - knots[above - 1]);
  return slope * (value - knots[above - 1]) + scores[above - 1];
}

// To mean 0 and deviation 1 / sqrt(d') over the values.
void standardise_scores(const std::vector<double>& values, const double* knots, double* scores, Index dim) {
  const auto size = static_cast<double>(values.size());
  double mean = 0, square = 0;
  for (const double value : values) mean += interpolate(knots, scores, value) / size;
  for (const double value : values) square += std::pow(interpolate(knots, scores, value) - mean, 2) / size;
  const double width = std::sqrt(square * static_cast<double>(dim));
  for (Index k = 0; k < kKnots; ++k) scores[k] = width > 0 ? (scores[k] - mean) / width : 0;
}

}  // namespace

void learn_scores(MatrixView<const double> keys, TokenFrame& frame, int threads) {
  frame.knots = Array(DType::f64, {keys.cols, kKnots});
  frame.scores = Array(DType::f64, {keys.cols, kKnots});
  double *knots = frame.knots.data<double>(), *scores = frame.scores.data<double>();
  parallel_for(threads, keys.cols, [&](Index j, int) {
    std::vector<double> values(static_cast<std::size_t>(keys.rows));
    for (Index k = 0; k < keys.rows; ++k) values[static_cast<std::size_t>(k)] = keys(k, j);
    std::sort(values.begin(), values.end());
    fill_knots(values, knots + j * kKnots, scores + j * kKnots);
    standardise_scores(values, knots + j * kKnots, scores + j * kKnots, keys.cols);
  });
}

double score(const TokenFrame& frame, Index j, double value) {
  return interpolate(frame.knots.data<double>() + j * kKnots, frame.scores.data<double>() + j * kKnots,
                     value);
}

}  // namespace headlens::automatic
