#include "recover/sculpt/repeats.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/parallel.hpp"

namespace headlens::recovery::sculpting {
namespace {

constexpr Index kAsk = 1024;  // examples between two questions whether to stop

// The tokens of one example times a sign, in ascending order; order[t] is the token at place t.
struct Arranged {
  std::vector<double> tokens;
  std::vector<Index> order;
  double sign = 1;
};

Arranged arrange(MatrixView<const double> x, Index first, Index k, double sign) {
  std::vector<std::vector<double>> tokens;
  for (Index t = 0; t < k; ++t) {
    tokens.emplace_back(x.row(first + t), x.row(first + t) + x.cols);
    for (double& entry : tokens.back()) entry *= sign;
  }
  Arranged out{{}, std::vector<Index>(static_cast<std::size_t>(k)), sign};
  std::iota(out.order.begin(), out.order.end(), Index{0});
  const auto token = [&](Index t) -> const std::vector<double>& {
    return tokens[static_cast<std::size_t>(t)];
  };
  std::stable_sort(out.order.begin(), out.order.end(), [&](Index a, Index b) { return token(a) < token(b); });
  for (const Index t : out.order) out.tokens.insert(out.tokens.end(), token(t).begin(), token(t).end());
  return out;
}

}  // namespace

DistinctExamples average_repeated(const Split& split) {
  const Index k = split.tokens, d = split.train_x.cols, e = split.train_y.cols;
  std::map<std::vector<double>, Index> places;
  std::vector<double> sums;
  std::vector<Index> counts;
  for (Index first = 0; first < split.train_x.rows; first += k) {
    if (first / k % kAsk == 0) heed();
    Arranged here = arrange(split.train_x, first, k, 1), turned = arrange(split.train_x, first, k, -1);
    if (turned.tokens < here.tokens) here = std::move(turned);
    const auto [at, fresh] = places.emplace(std::move(here.tokens), static_cast<Index>(counts.size()));
    if (fresh) counts.push_back(0), sums.resize(sums.size() + static_cast<std::size_t>(k * e), 0.0);
    ++counts[static_cast<std::size_t>(at->second)];
    double* sum = sums.data() + at->second * k * e;
    for (Index t = 0; t < k; ++t)
      for (Index c = 0; c < e; ++c)
        sum[t * e + c] += here.sign * split.train_y(first + here.order[static_cast<std::size_t>(t)], c);
  }
  const auto distinct = static_cast<Index>(counts.size());
  if (distinct * k == split.train_x.rows) return {{}, {}, split};
  DistinctExamples out{Matrix<double>(distinct * k, d), Matrix<double>(distinct * k, e), split};
  for (const auto& [tokens, place] : places) {
    std::copy(tokens.begin(), tokens.end(), out.x.view().row(place * k));
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(place)]);
    for (Index i = 0; i < k * e; ++i)
      out.y.data()[place * k * e + i] = sums[static_cast<std::size_t>(place * k * e + i)] / count;
  }
  out.split.train_x = std::as_const(out.x).view(), out.split.train_y = std::as_const(out.y).view();
  return out;
}

}  // namespace headlens::recovery::sculpting
