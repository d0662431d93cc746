#include "recover/factors/merge.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "linalg/vector_space.hpp"
#include "recover/factors/biases.hpp"
#include "recover/factors/content.hpp"

namespace headlens::recovery {
namespace {

constexpr double kOneHead = 0.9;   // cosine above which two heads are one, whatever their number
constexpr double kFaint = 0.02;    // |W| as a share of the largest: below it a head is noise of descent
constexpr double kNoHarm = 1.05;   // held-out errors that grow by less are the same
constexpr double kKnown = 0.5;     // held-out error from which on it tells of heads
constexpr std::size_t kTried = 3;  // pairs to merge and heads to drop whose held-out errors are looked at

Matrix<double> stacked(MatrixView<const double> a, MatrixView<const double> b) {
  Matrix<double> out(a.rows + b.rows, a.cols);
  copy_rows(a, out.view().block(0, 0, a.rows, a.cols));
  copy_rows(b, out.view().block(a.rows, 0, b.rows, a.cols));
  return out;
}

// Columns that turn cannot be added up: those of the head with the larger W stay.
OwnHead merged_turned(const OwnHead& a, const OwnHead& b) {
  const OwnHead& larger = w_norm(a.view()) < w_norm(b.view()) ? b : a;
  const OwnHead values{Matrix<double>(a.v.rows(), 0), Matrix<double>(a.v.rows(), 0),
                       side_by_side(a.v, 1, b.v, 1), stacked(a.o.view(), b.o.view())};
  OwnHead out = cut_to(balanced(values), 0, std::max(a.v.cols(), b.v.cols()));
  out.q = copy_of(larger.q);
  out.k = copy_of(larger.k);
  out.rotary = larger.rotary;
  return out;
}

OwnHead merged(const OwnHead& a, const OwnHead& b) {
  if (a.rotary) return merged_turned(a, b);
  const double one = w_norm(a.view()), other = w_norm(b.view());
  const double share = one + other > 0 ? one / (one + other) : 0.5;
  OwnHead both{side_by_side(a.q, share, b.q, 1 - share), side_by_side(a.k, 1, b.k, 1),
               side_by_side(a.v, 1, b.v, 1), stacked(a.o.view(), b.o.view())};
  const Index logits = std::max(a.q.cols(), b.q.cols()), values = std::max(a.v.cols(), b.v.cols());
  return cut_to(balanced(both), logits, values);
}

// One head fewer: `second` becomes a part of `first`, or is dropped where both are the same.
struct Cut {
  std::size_t first = 0, second = 0;
  double harm = 0;  // the error that the cut makes, roughly
  double cosine = -1;

  bool drops() const { return first == second; }
};

// Heads that get fewer. Products of two of them cost d r^2 flops, so they are kept. Copies share their heads.
class Merging {
 public:
  explicit Merging(const Factors& factors) : factors_(&factors) {
    for (Index i = 0; i < layer_heads(factors); ++i) {
      heads_.push_back(std::make_shared<OwnHead>(own_head(factors, i)));
      numbers_.push_back(next_++);
    }
  }
  std::size_t count() const { return heads_.size(); }
  double w(std::size_t head) const { return w_norm(heads_[head]->view()); }
  double largest_w() const {
    double out = 0;
    for (std::size_t i = 0; i < count(); ++i) out = std::max(out, w(i));
    return out;
  }
  // Every pair moves two heads to their mean: |W_i| |Theta_i - Theta| + |W_j| |Theta_j - Theta|.
  std::vector<Cut> merges() {
    std::vector<Cut> out;
    for (std::size_t i = 0; i < count(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double apart = distance(i, j), one = w(i), other = w(j);
        const double harm = one + other > 0 ? 2 * one * other / (one + other) * apart : 0;
        out.push_back({j, i, harm, cosine(i, j)});
      }
    return out;
  }
  std::vector<Cut> drops() const {
    std::vector<Cut> out;
    for (std::size_t i = 0; i < count(); ++i) out.push_back({i, i, w(i)});
    return out;
  }
  void take(const Cut& cut) {
    if (!cut.drops()) {
      heads_[cut.first] = std::make_shared<OwnHead>(merged(*heads_[cut.first], *heads_[cut.second]));
      numbers_[cut.first] = next_++;
    }
    heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(cut.second));
    numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(cut.second));
  }
  Factors layer() const {
    std::vector<OwnHead> all;
    for (const auto& head : heads_)
      all.push_back({copy_of(head->q), copy_of(head->k), copy_of(head->v), copy_of(head->o), head->rotary});
    if (factors_->ranks.biased) all.push_back(own_head(*factors_, factors_->heads() - 1));
    return assemble(all, factors_->ranks);
  }

 private:
  double cosine(std::size_t i, std::size_t j) {
    std::optional<double>& known = cosines_[{numbers_[i], numbers_[j]}];
    if (!known) known = theta_cosine(heads_[i]->view(), heads_[j]->view());
    return *known;
  }
  double distance(std::size_t i, std::size_t j) {
    const double one = theta_norm(heads_[i]->view()), other = theta_norm(heads_[j]->view());
    return std::sqrt(std::max(0.0, one * one + other * other - 2 * cosine(i, j) * one * other));
  }

  const Factors* factors_;
  std::vector<std::shared_ptr<const OwnHead>> heads_;
  std::vector<int> numbers_;  // a head that has changed has a new one
  std::map<std::pair<int, int>, std::optional<double>> cosines_;
  int next_ = 0;
};

// Heads that are one whatever the held-out error says, and heads that are next to nothing.
void cut_obvious(Merging& merging) {
  for (bool again = true; again && merging.count() > 1;) {
    again = false;
    std::vector<Cut> cuts = merging.merges();
    const auto closest = std::max_element(cuts.begin(), cuts.end(),
                                          [](const Cut& a, const Cut& b) { return a.cosine < b.cosine; });
    const std::vector<Cut> drops = merging.drops();
    const auto least = std::min_element(drops.begin(), drops.end(),
                                        [](const Cut& a, const Cut& b) { return a.harm < b.harm; });
    if (closest->cosine > kOneHead)
      merging.take(*closest), again = true;
    else if (least->harm < kFaint * merging.largest_w())
      merging.take(*least), again = true;
  }
}

struct Fewer {
  Merging merging;
  double error = 0;
};

// Of the cuts that seem least harmful, the one that leaves the smallest held-out error.
Fewer one_less(Merging& from, const HeldOutError& error) {
  std::optional<Fewer> best;
  for (std::vector<Cut> cuts : {from.merges(), from.drops()}) {
    std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.harm < b.harm; });
    cuts.resize(std::min(kTried, cuts.size()));
    for (const Cut& cut : cuts) {
      Fewer next{from};
      next.merging.take(cut);
      next.error = error(next.merging.layer());
      if (!best || next.error < best->error) best = std::move(next);
    }
  }
  return std::move(*best);
}

}  // namespace

Factors merge_heads(const Factors& factors, std::optional<Index> wanted, const HeldOutError& error) {
  Merging merging(factors);
  cut_obvious(merging);
  const double before = wanted ? 0 : error(merging.layer());
  while (merging.count() > 1 && (!wanted || static_cast<Index>(merging.count()) > *wanted)) {
    Fewer fewer = one_less(merging, error);
    if (!wanted && !(before < kKnown && fewer.error < kNoHarm * before)) break;
    merging = std::move(fewer.merging);
  }
  return merging.layer();
}

}  // namespace headlens::recovery
