// Every candidate set, one statistic each: the correlation of v with the parity of the set, or the share of v
// that is a function of the hidden sum.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/hardness.hpp"
#include "recover/parity/parity.hpp"

namespace headlens::recovery {
namespace {

constexpr double kBlock = 1024;       // candidates of a task
constexpr Index kAskCandidates = 16;  // candidates between two looks at the clock
constexpr Index kLanes = 8;

// Sets of `size` of n elements in lexicographic order, from any place in it.
class Combinations {
 public:
  Combinations(Index n, Index size, double place) : n_(n) {
    Index element = 0;
    for (Index left = size; left > 0; ++element) {
      const double with = binomial(n - element - 1, left - 1);  // sets that go on with this element
      if (place < with) {
        chosen_.push_back(element);
        --left;
      } else {
        place -= with;
      }
    }
  }
  const std::vector<Index>& chosen() const { return chosen_; }
  // To the next set; the first position that changed, or -1 after the last set.
  Index advance() {
    const auto size = static_cast<Index>(chosen_.size());
    Index i = size - 1;
    while (i >= 0 && chosen_[static_cast<std::size_t>(i)] == n_ - size + i) --i;
    if (i < 0) return -1;
    ++chosen_[static_cast<std::size_t>(i)];
    for (Index j = i + 1; j < size; ++j)
      chosen_[static_cast<std::size_t>(j)] = chosen_[static_cast<std::size_t>(j - 1)] + 1;
    return i;
  }

 private:
  Index n_;
  std::vector<Index> chosen_;
};

double dot(const double* a, const double* b, Index n) {
  std::array<double, kLanes> sums{};  // a fixed order that still runs in vectors
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (Index j = 0; j < kLanes; ++j) sums[static_cast<std::size_t>(j)] += a[i + j] * b[i + j];
  double sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const double lane : sums) sum += lane;
  return sum;
}

struct Ranked {
  std::vector<Index> set;
  double best = -1, next = -1;
  double tried = 0;

  void add(const std::vector<Index>& other, double score) {
    if (score > best) {
      next = best;
      best = score;
      set = other;
    } else {
      next = std::max(next, score);
    }
  }
  void add(const Ranked& other) {
    if (other.set.empty()) return;
    add(other.set, other.best);
    next = std::max(next, other.next);
    tried += other.tried;
  }
};

// v - mean of the strongest output.
std::vector<double> centred_labels(const ActiveExamples& active) {
  const double* v = active.labels.view().row(strongest_output(active));
  const Index n = active.count();
  double mean = 0;
  for (Index i = 0; i < n; ++i) mean += v[i] / static_cast<double>(n);
  std::vector<double> out(v, v + n);
  for (double& value : out) value -= mean;
  return out;
}

// The candidates [first, first + count) in order. extend(i, j) makes what is known of the first i + 1
// elements from that of the first i and the element j; it is called for all but the last element, and only
// where the set has changed, so a candidate costs one pass over the examples, and now and then another.
// Ends early where the time does.
template <class Extend, class Score>
Ranked walk(Index coordinates, Index set_size, double first, double count, const Effort& effort,
            Extend extend, Score score) {
  Combinations sets(coordinates, set_size, first);
  Ranked ranked;
  Index changed = 0;
  std::vector<Index> set(static_cast<std::size_t>(set_size));
  for (Index step = 0; ranked.tried < count && changed >= 0; ++step, ++ranked.tried) {
    if (step % kAskCandidates == 0 && effort.expired()) break;
    for (Index i = changed; i < set_size; ++i)
      set[static_cast<std::size_t>(i)] = sets.chosen()[static_cast<std::size_t>(i)] + 1;
    for (Index i = changed; i + 1 < set_size; ++i) extend(i, set[static_cast<std::size_t>(i)]);
    ranked.add(set, score(set.back()));
    changed = sets.advance();
  }
  return ranked;
}

// E[(v - mean) prod_{j in S} b_j]
class ParityQuery {
 public:
  explicit ParityQuery(const ActiveExamples& active) : active_(active), centred_(centred_labels(active)) {
    for (const double x : centred_) size_ += std::abs(x);
  }

  Ranked rank(Index set_size, double first, double count, const Effort& effort) const {
    const Index n = active_.count();
    Matrix<double> products(set_size, n);
    std::copy_n(centred_.data(), n, products.view().row(0));
    const auto extend = [&](Index i, Index j) {
      const double *from = products.view().row(i), *bit = active_.bits.view().row(j);
      double* to = products.view().row(i + 1);
      for (Index k = 0; k < n; ++k) to[k] = from[k] * bit[k];
    };
    const auto score = [&](Index last) {
      const double sum = dot(products.view().row(set_size - 1), active_.bits.view().row(last), n);
      return size_ > 0 ? std::abs(sum) / size_ : 0;
    };
    return walk(active_.bits.rows() - 1, set_size, first, count, effort, extend, score);
  }

 private:
  const ActiveExamples& active_;
  std::vector<double> centred_;
  double size_ = 0;
};

// sqrt(E[E[v - mean | t]^2] / E[(v - mean)^2]), t = sum_{j in S} c (x[j] - x'[j]) / 2: the correlation of v
// with the best function of t, 1 if v is one.
class StepQuery {
 public:
  explicit StepQuery(const ActiveExamples& active)
      : signs_(hidden_signs(active)), centred_(centred_labels(active)) {
    for (const double x : centred_) square_ += x * x;
  }

  Ranked rank(Index set_size, double first, double count, const Effort& effort) const {
    const Index n = signs_.cols();
    Matrix<signed char> sums(set_size, n);
    std::fill_n(sums.view().row(0), n, static_cast<signed char>(set_size));
    const auto extend = [&](Index i, Index j) {
      const signed char *from = sums.view().row(i), *sign = signs_.view().row(j);
      signed char* to = sums.view().row(i + 1);
      for (Index k = 0; k < n; ++k) to[k] = static_cast<signed char>(from[k] + sign[k]);
    };
    const auto score = [&](Index last) {
      return explained(sums.view().row(set_size - 1), signs_.view().row(last), set_size);
    };
    return walk(signs_.rows() - 1, set_size, first, count, effort, extend, score);
  }

 private:
  double explained(const signed char* sum, const signed char* last, Index set_size) const {
    std::array<double, 2 * kMostSummed + 1> sums{}, counts{};  // by t + size
    for (std::size_t k = 0; k < centred_.size(); ++k) {
      const auto level = static_cast<std::size_t>(sum[k] + last[k]);
      sums[level] += centred_[k];
      counts[level] += 1;
    }
    double between = 0;
    for (std::size_t t = 0; t < static_cast<std::size_t>(2 * set_size + 1); ++t)
      if (counts[t] > 0) between += sums[t] * sums[t] / counts[t];
    return square_ > 0 ? std::sqrt(std::min(1.0, between / square_)) : 0;
  }

  Matrix<signed char> signs_;
  std::vector<double> centred_;
  double square_ = 0;
};

template <class Query>
BestSet search(const ActiveExamples& active, Index size, Effort& effort) {
  const Index d = active.bits.rows();
  const Query query(active);
  BestSet out{.candidates = binomial(d - 1, size)};
  const int threads = effort.threads();
  Ranked ranked;
  while (out.tried < out.candidates && !effort.expired()) {
    effort.execution().check_cancelled();
    effort.execution().report("brute force, sets of " + std::to_string(size), out.tried, out.candidates);
    const double left = std::ceil((out.candidates - out.tried) / kBlock);
    std::vector<Ranked> blocks(static_cast<std::size_t>(std::min(left, 4.0 * threads)));
    parallel_for(threads, static_cast<Index>(blocks.size()), [&](Index block, int) {
      blocks[static_cast<std::size_t>(block)] =
          query.rank(size, out.tried + kBlock * static_cast<double>(block), kBlock, effort);
    });
    for (const Ranked& block : blocks) ranked.add(block);
    out.tried = ranked.tried;
  }
  out.set = ranked.set;
  out.correlation = std::max(0.0, ranked.best);
  out.next_correlation = std::max(0.0, ranked.next);
  return out;
}

}  // namespace

BestSet search_sets(const ActiveExamples& active, Index size, Effort& effort) {
  return search<ParityQuery>(active, size, effort);
}

BestSet search_sums(const ActiveExamples& active, Index size, Effort& effort) {
  return size <= kMostSummed ? search<StepQuery>(active, size, effort) : BestSet{};
}

}  // namespace headlens::recovery
