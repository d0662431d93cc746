#include "refit/grouping.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"
#include "refit/descend.hpp"
#include "refit/head_factors.hpp"
#include "refit/starts.hpp"

namespace headlens::refitting {
namespace {

constexpr Index kRows = 512, kMeasuredRows = 4096;  // tokens of a batch, and of the examples that tell a cost
constexpr int kMostSteps = 200, kRandomOrders = 30;

// Steps of a descent per pair, so that all pairs stay within the operations.
int steps_per_pair(const TiedShape& shape, const PairOptions& options) {
  const auto rows = static_cast<double>(shape.rows), rank = static_cast<double>(shape.rank),
             values = static_cast<double>(shape.value_rank), heads = static_cast<double>(shape.heads);
  const double moved = 6 * (rows * (3 * rank + values) + 2 * values * static_cast<double>(shape.outputs)),
               labelled =
                   2 * (rows * (4 * rank + 2 * values) + 2 * values * static_cast<double>(shape.outputs)),
               pairs = heads * (heads - 1) / 2;
  return static_cast<int>(std::min<double>(kMostSteps, options.flops / (pairs * kRows * (moved + labelled))));
}

double squared_distance(const Matrix<double>& a, const Matrix<double>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows() * a.cols(); ++i) {
    const double difference = a.data()[i] - b.data()[i];
    sum += difference * difference;
  }
  return sum;
}

double cost_of(const TiedLayer& two, const TiedExamples& examples, const PairOptions& options, int steps,
               int threads) {
  const TiedLayer end = descend(
      share(two, 1, options.rank), examples,
      {.steps = steps, .seed = options.seed, .rows = kRows, .teacher = &two},
      [](int, double) { return false; }, threads);
  const Index count = std::min(examples.count(), std::max<Index>(1, kMeasuredRows / examples.tokens));
  const TiedExamples last = examples.part(examples.count() - count, count);
  const auto outputs = [&](const TiedLayer& layer) {
    return apply_tied(layer, last.x, last.tokens, last.lengths, threads);
  };
  return squared_distance(outputs(end), outputs(two)) / static_cast<double>(last.x.rows);
}

double cost_in_groups(const Matrix<double>& costs, const std::vector<Index>& order, Index size) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (static_cast<Index>(i) / size == static_cast<Index>(j) / size) sum += costs(order[i], order[j]);
  return sum;
}

// What head `head` costs in the group of place `place`, without the head that is there.
double cost_at(const Matrix<double>& costs, const std::vector<Index>& order, Index size, Index head,
               Index place) {
  double sum = 0;
  const Index first = place / size * size;
  for (Index j = first; j < first + size; ++j)
    if (j != place) sum += costs(head, order[static_cast<std::size_t>(j)]);
  return sum;
}

// Exchanges the first two heads whose exchange makes the total smaller; false where there are none.
bool exchange(const Matrix<double>& costs, std::vector<Index>& order, Index size) {
  const auto m = static_cast<Index>(order.size());
  for (Index i = 0; i < m; ++i)
    for (Index j = (i / size + 1) * size; j < m; ++j) {
      Index &a = order[static_cast<std::size_t>(i)], &b = order[static_cast<std::size_t>(j)];
      const double before = cost_at(costs, order, size, a, i) + cost_at(costs, order, size, b, j),
                   after = cost_at(costs, order, size, b, i) + cost_at(costs, order, size, a, j);
      if (!(after < before * (1 - 1e-12))) continue;
      std::swap(a, b);
      return true;
    }
  return false;
}

std::vector<Index> shuffled(std::vector<Index> order, Stream stream) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  return order;
}

}  // namespace

TiedLayer in_order(const TiedLayer& layer, const std::vector<Index>& order) {
  const std::vector<Head> heads = heads_in(layer);
  std::vector<Head> sorted;
  for (const Index i : order) {
    const Head& head = heads[static_cast<std::size_t>(i)];
    sorted.push_back({headlens::copy_of(head.q), headlens::copy_of(head.k), headlens::copy_of(head.v),
                      headlens::copy_of(head.o)});
  }
  return assemble(sorted, static_cast<Index>(sorted.size()), layer);
}

Matrix<double> pair_costs(const TiedLayer& layer, const TiedExamples& examples, const PairOptions& options,
                          const std::function<bool()>& stop, int threads) {
  const Index m = layer.shape.heads;
  const int steps = steps_per_pair(layer.shape, options);
  Matrix<double> costs = Matrix<double>::zeros(m, m);
  for (Index a = 0; a < m; ++a)
    for (Index b = 0; b < a && !stop(); ++b) {
      const TiedLayer two = in_order(layer, {a, b});
      costs(a, b) = costs(b, a) = cost_of(two, examples, options, steps, threads);
    }
  return costs;
}

std::vector<Index> cheapest_groups(const Matrix<double>& costs, Index groups, std::uint64_t seed) {
  std::vector<Index> best(static_cast<std::size_t>(costs.rows()));
  std::iota(best.begin(), best.end(), Index{0});
  const std::vector<Index> plain = best;
  const Index size = costs.rows() / groups;
  for (int start = 0; start <= kRandomOrders; ++start) {
    std::vector<Index> order =
        start == 0 ? plain : shuffled(plain, Stream(seed, "refit-order", static_cast<std::uint64_t>(start)));
    while (exchange(costs, order, size)) {
    }
    if (start == 0 || cost_in_groups(costs, order, size) < cost_in_groups(costs, best, size)) best = order;
  }
  return best;
}

}  // namespace headlens::refitting
