#include "recover/factors/merge.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "linalg/vector_space.hpp"
#include "recover/factors/biases.hpp"

namespace headlens::recovery {
namespace {

constexpr double kOneHead = 0.9;  // cosine above which two heads are one, whatever their number
constexpr double kRelated = 0.4;  // and above which they are merged before any is dropped
constexpr double kFaint = 0.02;   // |W| as a share of the largest: below it a head is noise of descent

Matrix<double> side_by_side(MatrixView<const double> a, double factor_a, MatrixView<const double> b,
                            double factor_b) {
  Matrix<double> out(a.rows, a.cols + b.cols);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) out(i, j) = factor_a * a(i, j);
    for (Index j = 0; j < b.cols; ++j) out(i, a.cols + j) = factor_b * b(i, j);
  }
  return out;
}

Matrix<double> stacked(MatrixView<const double> a, MatrixView<const double> b) {
  Matrix<double> out(a.rows + b.rows, a.cols);
  copy_rows(a, out.view().block(0, 0, a.rows, a.cols));
  copy_rows(b, out.view().block(a.rows, 0, b.rows, a.cols));
  return out;
}

Matrix<double> first_columns(const Matrix<double>& a, Index count) {
  Matrix<double> out(a.rows(), std::min(count, a.cols()));
  copy_rows(a.view().block(0, 0, a.rows(), out.cols()), out.view());
  return out;
}

Matrix<double> first_rows(const Matrix<double>& a, Index count) {
  Matrix<double> out(std::min(count, a.rows()), a.cols());
  copy_rows(a.view().block(0, 0, out.rows(), a.cols()), out.view());
  return out;
}

OwnHead merged(const OwnHead& a, const OwnHead& b) {
  const double one = w_norm(a.view()), other = w_norm(b.view());
  const double share = one + other > 0 ? one / (one + other) : 0.5;
  OwnHead both{side_by_side(a.q.view(), share, b.q.view(), 1 - share),
               side_by_side(a.k.view(), 1, b.k.view(), 1), side_by_side(a.v.view(), 1, b.v.view(), 1),
               stacked(a.o.view(), b.o.view())};
  const Index logits = std::max(a.q.cols(), b.q.cols()), values = std::max(a.v.cols(), b.v.cols());
  const OwnHead out = balanced(both);
  return {first_columns(out.q, logits), first_columns(out.k, logits), first_columns(out.v, values),
          first_rows(out.o, values)};
}

struct Pair {
  std::size_t first = 0, second = 0;
  double cosine = -1;
};

// Heads that get fewer. Products of two of them cost d r^2 flops, so they are kept.
class Merging {
 public:
  explicit Merging(const Factors& factors) {
    for (Index i = 0; i < layer_heads(factors); ++i) add(own_head(factors, i));
  }
  const std::vector<OwnHead>& heads() const { return heads_; }
  Pair closest() {
    Pair out;
    for (std::size_t i = 0; i < heads_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        std::optional<double>& cosine = cosines_[{numbers_[i], numbers_[j]}];
        if (!cosine) cosine = theta_cosine(heads_[i].view(), heads_[j].view());
        if (*cosine > out.cosine) out = {j, i, *cosine};
      }
    return out;
  }
  void merge(const Pair& pair) {
    heads_[pair.first] = merged(heads_[pair.first], heads_[pair.second]);
    numbers_[pair.first] = next_++;
    drop(pair.second);
  }
  void drop(std::size_t head) {
    heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(head));
    numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(head));
  }

 private:
  void add(OwnHead head) {
    heads_.push_back(std::move(head));
    numbers_.push_back(next_++);
  }

  std::vector<OwnHead> heads_;
  std::vector<int> numbers_;  // a head that has changed has a new one
  std::map<std::pair<int, int>, std::optional<double>> cosines_;
  int next_ = 0;
};

}  // namespace

double theta_cosine(const HeadFactors& a, const HeadFactors& b) {
  if (a.q.cols == 0 && b.q.cols == 0) return 1;  // both take the plain mean
  const double sizes = theta_norm(a) * theta_norm(b);
  return sizes > 0 ? factored_product(a.q, a.k, b.q, b.k) / sizes : 0;
}

Factors merge_heads(const Factors& factors, std::optional<Index> wanted) {
  Merging merging(factors);
  const std::vector<OwnHead>& heads = merging.heads();
  const auto smaller = [](const OwnHead& a, const OwnHead& b) { return w_norm(a.view()) < w_norm(b.view()); };
  for (;;) {
    const bool surplus = wanted && static_cast<Index>(heads.size()) > *wanted;
    const Pair pair = merging.closest();
    const auto least = std::min_element(heads.begin(), heads.end(), smaller);
    const double largest = w_norm(std::max_element(heads.begin(), heads.end(), smaller)->view());
    // Faint heads go before related ones are made one: heads on tokens of a text are related, and not one.
    const bool faint = w_norm(least->view()) < kFaint * largest;
    if (pair.cosine > (surplus && !faint ? kRelated : kOneHead)) {
      merging.merge(pair);
      continue;
    }
    if (heads.size() == 1 || !(surplus || faint)) break;
    merging.drop(static_cast<std::size_t>(least - heads.begin()));
  }
  std::vector<OwnHead> all;
  for (const OwnHead& head : heads)
    all.push_back({copy_of(head.q), copy_of(head.k), copy_of(head.v), copy_of(head.o)});
  if (factors.ranks.biased) all.push_back(own_head(factors, factors.heads() - 1));
  return assemble(all, factors.ranks);
}

}  // namespace headlens::recovery
