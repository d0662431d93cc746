#include "recover/factors/descend.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/random.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kBatchRows = 3200, kPatience = 600;
constexpr double kPlainDim = 384;  // coordinates up to which these do
constexpr int kWarmUp = 100;
constexpr int kLookEvery = 25;
constexpr Index kLookedAt = 128;  // held-out examples

// Batches of examples, in a fresh random order each time all have been seen.
class Batches {
 public:
  Batches(Index examples, Index size, std::uint64_t seed)
      : order_(static_cast<std::size_t>(examples)), size_(static_cast<std::size_t>(size)), seed_(seed) {
    std::iota(order_.begin(), order_.end(), Index{0});
    shuffle();
  }
  std::vector<Index> next() {
    if (at_ + size_ > order_.size()) shuffle();
    const auto from = order_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += size_;
    return {from, from + static_cast<std::ptrdiff_t>(size_)};
  }

 private:
  void shuffle() {
    Stream stream(seed_, "batches", round_++);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[stream.below(i)]);
    at_ = 0;
  }
  std::vector<Index> order_;
  std::size_t size_, at_ = 0;
  std::uint64_t seed_, round_ = 0;
};

// Beyond kPlainDim the plateau before the plunge takes longer, and the noise of a batch hides it: batches and
// patience grow with d^2, as the unknowns of a layer do.
Index with_dim(Index count, Index dim) {
  const double ratio = std::max(1.0, static_cast<double>(dim) / kPlainDim);
  return static_cast<Index>(static_cast<double>(count) * ratio * ratio);
}

double rate_at(const DescentOptions& options, int step) {
  const double share = static_cast<double>(step) / options.most_steps;
  return options.rate * std::min(1.0, (step + 1.0) / kWarmUp) *
         (0.5 * (1 + std::cos(std::numbers::pi * share)) + 1e-3);
}

// The course of a descent: is it still worth its steps?
class Course {
 public:
  explicit Course(Index patience) : patience_(static_cast<int>(patience)) {}
  void look(int step, const Factors& factors) {
    if (factors.held_out_error < kBetter * best_) {
      best_ = factors.held_out_error;
      at_ = step;
    }
    split_ = factors.train_error < kSplit * factors.held_out_error ? split_ + 1 : 0;
  }
  bool is_flat(int step) const { return step - at_ >= patience_; }
  bool is_slow(int step) const { return step - at_ >= patience_ / 2; }
  bool overfits() const { return split_ >= patience_ / kLookEvery && best_ > kUseless; }

 private:
  static constexpr double kBetter = 0.98, kSplit = 0.6, kUseless = 0.3;
  double best_ = 1e300;
  int patience_, at_ = 0, split_ = 0;
};

// The noise of the batches limits the error once the running mean of the values does much better than the
// values. Descent then goes on from the mean at a quarter of the rate. Sooner would be wrong: a small rate on
// the way to the plunge takes it away.
constexpr double kNoisy = 0.7, kSlower = 0.25;

// Where a descent is: its values, or their running mean where that is better.
struct Place {
  Factors factors;
  bool noisy = false;
};
Place look(const backend::FactorDescent& machine, const Split& held, const Factors& now, Effort& effort) {
  Place out{{now.ranks, machine.values()}};
  Factors mean{now.ranks, machine.mean_values()};
  for (Factors* each : {&out.factors, &mean})
    each->held_out_error = error_on(held.held(), *each, effort.context());
  out.noisy = mean.held_out_error < kNoisy * out.factors.held_out_error;
  if (mean.held_out_error < out.factors.held_out_error) out.factors = std::move(mean);
  return out;
}

}  // namespace

Split few_held_out(const Split& split) {
  Split out = split;
  const Index rows = std::min(split.held_x.rows, kLookedAt * split.tokens);
  out.held_x = split.held_x.block(0, 0, rows, split.held_x.cols);
  out.held_y = split.held_y.block(0, 0, rows, split.held_y.cols);
  if (split.is_partial()) out.held_seen = split.held_seen.block(0, 0, rows, split.held_y.cols);
  if (!split.held_lengths.empty()) out.held_lengths.resize(static_cast<std::size_t>(rows / split.tokens));
  return out;
}

DescentResult descend(const Split& split, Factors start, const DescentOptions& options, std::uint64_t seed,
                      Successor& newton, Effort& effort) {
  const Index k = split.tokens, d = split.train_x.cols, examples = split.train_x.rows / k;
  const auto descent_from = [&](const Factors& from) {
    return effort.context().machine.make_factor_descent(split.train(), from.ranks, from.values,
                                                        effort.context());
  };
  auto machine = descent_from(start);
  Batches batches(examples, std::min(examples, std::max<Index>(1, with_dim(kBatchRows, d) / k)), seed);
  const Split held = few_held_out(split);
  DescentResult out{std::move(start), DescentEnd::out_of_steps, 0};
  const auto ended = [&](DescentEnd end) {
    out.end = end;
    return std::move(out);
  };
  Course course(with_dim(kPatience, d));
  double mean = 1, near = options.near;  // mean: of the batches' relative squares, running
  double slower = 1;
  bool renewed = false;
  while (out.steps < options.most_steps) {
    const double squares = machine->step(batches.next(), slower * rate_at(options, out.steps));
    mean += 0.1 * (squares - mean);
    ++effort.steps;
    ++out.steps;
    if (out.steps % 10 == 0) effort.report("descend", out.steps, mean, out.factors.heads());
    const bool late = effort.must_stop();
    if (!late && out.steps % kLookEvery != 0) continue;
    Place place = look(*machine, held, out.factors, effort);
    out.factors = std::move(place.factors);
    out.factors.train_error = std::sqrt(mean);
    effort.trace.push_back({"descend", out.factors.heads(), effort.seconds(), out.factors.train_error,
                            out.steps, out.factors.held_out_error});
    newton.look(out.factors);
    if (place.noisy) {
      machine->go_to_mean();
      slower *= kSlower;
    }
    if (late) return ended(DescentEnd::out_of_time);
    course.look(out.steps, out.factors);
    if (course.overfits()) return ended(DescentEnd::overfits);
    // On a plateau some head of the layer is missing and several students share another. Students that share
    // are one, and the places that this leaves begin anew.
    if (course.is_slow(out.steps) && out.factors.held_out_error > options.near && !renewed) {
      renewed = true;
      if (std::optional<Factors> fresh = newton.with_fresh_heads(out.factors)) {
        machine = descent_from(*fresh);
        out.factors.ranks = fresh->ranks;
        course = Course(with_dim(kPatience, d));
        slower = 1;
        continue;
      }
    }
    const bool flat = course.is_flat(out.steps);
    if (out.factors.held_out_error < near || flat) {
      if (newton.take_over(out.factors, flat ? Successor::Try::last : Successor::Try::early))
        return ended(DescentEnd::found);
      near = std::min(near, out.factors.held_out_error) / 2;
    }
    if (flat) return ended(DescentEnd::flat);
  }
  const bool found = newton.take_over(out.factors, Successor::Try::last);
  return ended(found ? DescentEnd::found : DescentEnd::out_of_steps);
}

}  // namespace headlens::recovery
