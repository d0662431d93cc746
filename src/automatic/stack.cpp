#include "automatic/stack.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "automatic/spectrum.hpp"
#include "base/parallel.hpp"

namespace headlens::automatic {
namespace {

constexpr double kShared = 0.01;  // s over |y - mean y|^2

double inner(MatrixView<const double> a, MatrixView<const double> b) {
  const std::vector<double> means = column_means(a), others = column_means(b);
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index c = 0; c < a.cols; ++c)
      sum += (a(i, c) - means[static_cast<std::size_t>(c)]) * (b(i, c) - others[static_cast<std::size_t>(c)]);
  return sum;
}

// min w^T G w / 2 - b^T w over w >= 0, w_c = 0 where c is not among `free`: one coordinate after another. The
// term s bounds the condition of G, so a few hundred rounds do.
std::vector<double> minimise(const Matrix<double>& gram, const std::vector<double>& linear,
                             const std::vector<std::size_t>& free) {
  constexpr int kRounds = 20000;
  std::vector<double> w(linear.size());
  for (int round = 0; round < kRounds; ++round) {
    heed();
    double largest = 0, moved = 0;
    for (const std::size_t c : free) {
      if (!(gram(static_cast<Index>(c), static_cast<Index>(c)) > 0)) continue;  // it and y are constant
      double slope = linear[c];
      for (const std::size_t other : free)
        slope -= gram(static_cast<Index>(c), static_cast<Index>(other)) * w[other];
      const double to = std::max(0.0, w[c] + slope / gram(static_cast<Index>(c), static_cast<Index>(c)));
      moved = std::max(moved, std::abs(to - w[c]));
      largest = std::max(largest, to);
      w[c] = to;
    }
    if (moved <= 1e-12 * largest) break;
  }
  return w;
}

}  // namespace

std::vector<double> stacking_weights(const std::vector<const Matrix<double>*>& predictions,
                                     MatrixView<const double> y, std::size_t most) {
  const auto count = static_cast<Index>(predictions.size());
  const double shared = kShared * inner(y, y);
  Matrix<double> gram(count, count);
  std::vector<double> linear;
  for (Index c = 0; c < count; ++c) {
    const Matrix<double>& one = *predictions[static_cast<std::size_t>(c)];
    linear.push_back(inner(one, y));
    for (Index other = 0; other <= c; ++other)
      gram(c, other) = gram(other, c) = inner(one, *predictions[static_cast<std::size_t>(other)]);
    gram(c, c) += shared;
  }
  std::vector<std::size_t> free(predictions.size());
  std::iota(free.begin(), free.end(), std::size_t{0});
  std::vector<double> w = minimise(gram, linear, free);
  std::stable_sort(free.begin(), free.end(), [&](std::size_t a, std::size_t b) { return w[a] > w[b]; });
  if (free.size() > most && w[free[most]] > 0) {
    free.resize(most);
    w = minimise(gram, linear, free);
  }
  // Nothing that was predicted goes with y: the first prediction is no worse than none.
  if (*std::max_element(w.begin(), w.end()) <= 0) w.front() = 1;
  return w;
}

}  // namespace headlens::automatic
