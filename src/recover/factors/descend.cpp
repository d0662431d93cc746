#include "recover/factors/descend.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kBatchRows = 3200, kPatience = 600;
constexpr double kPlainDim = 384;            // coordinates up to which these do
constexpr double kRateDim = 256;             // to which DescentOptions::rate belongs
constexpr Index kLarger = 4, kLargest = 16;  // batches where noise is in the way, and the largest
constexpr int kWarmUp = 100;
constexpr int kLookEvery = 25;
constexpr Index kLookedAt = 128;     // held-out examples
constexpr double kFewLabels = 0.25;  // of the squares that so many examples have on average
constexpr double kBlockRows = 256;   // of the work of one thread, or one example

// Batches of examples, in a fresh random order each time all have been seen.
class Batches {
 public:
  Batches(Index examples, Index size, std::uint64_t seed)
      : order_(static_cast<std::size_t>(examples)), size_(static_cast<std::size_t>(size)), seed_(seed) {
    std::iota(order_.begin(), order_.end(), Index{0});
    shuffle();
  }
  Index size() const { return static_cast<Index>(size_); }
  void grow_to(Index size) { size_ = static_cast<std::size_t>(size); }
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

Index examples_of(const Split& split) { return split.train_x.rows / split.tokens; }
Index first_batch(const Split& split) {
  return std::min(examples_of(split),
                  std::max<Index>(1, with_dim(kBatchRows, split.train_x.cols) / split.tokens));
}
Index largest_batch(const Split& split) {
  return std::max(first_batch(split), std::min(kLargest * first_batch(split), examples_of(split) / 2));
}

// A step of Adam moves every entry by about the rate, and entries are as large as 1 / sqrt(d): in fewer
// coordinates than kRateDim the rate grows as they do. In more coordinates the rate stays, because steps of
// the same share of an entry would be too small there: descent overfits on the way.
double rate_at(const DescentOptions& options, Index dim, int step) {
  const double share = static_cast<double>(step) / options.most_steps;
  return options.rate * std::sqrt(std::max(1.0, kRateDim / static_cast<double>(dim))) *
         std::min(1.0, (step + 1.0) / kWarmUp) * (0.5 * (1 + std::cos(std::numbers::pi * share)) + 1e-3);
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
// values. Descent then goes on from the mean with batches of four times as many examples, which halves the
// noise; once a batch has sixteen times as many, or half of all examples, at a quarter of the rate, which
// does the same and is slower. Sooner would be wrong: a small rate on the way to the plunge takes it away.
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

double descent_bytes(const Split& split, const backend::HeadRanks& ranks, const Effort& effort) {
  const auto k = static_cast<double>(split.tokens), batch = static_cast<double>(largest_batch(split)) * k,
             rows = std::max(k, batch / effort.context().ranks.size());
  const auto d = static_cast<double>(split.train_x.cols), e = static_cast<double>(split.train_y.cols),
             z = static_cast<double>(ranks.parameter_columns()), m = static_cast<double>(ranks.heads()),
             b = static_cast<double>(ranks.value_columns());
  // Tokens, what is left of the labels, features and the way back of a batch; activations, attention and
  // gradients of the block of every thread; values, their gradients and means.
  const double block = std::max(k, kBlockRows), blocks = std::min<double>(effort.threads(), rows / block + 1);
  return 4 * (rows * (d + e + b + z) + blocks * block * (z + m * k + b + k) + 5 * (d * z + b * e));
}

Split few_held_out(const Split& split) {
  Split out = split;
  const Index rows = std::min(split.held_x.rows, kLookedAt * split.tokens);
  out.held_x = split.held_x.block(0, 0, rows, split.held_x.cols);
  out.held_y = split.held_y.block(0, 0, rows, split.held_y.cols);
  if (split.is_partial()) out.held_seen = split.held_seen.block(0, 0, rows, split.held_y.cols);
  if (!split.held_lengths.empty()) out.held_lengths.resize(static_cast<std::size_t>(rows / split.tokens));
  const double usual = static_cast<double>(rows) / static_cast<double>(split.held_x.rows);
  const bool tell = squared_norm(out.held_y) >= kFewLabels * usual * squared_norm(split.held_y);
  return tell ? std::move(out) : split;
}

namespace {

class Descent {
 public:
  Descent(const Split& split, Factors start, const DescentOptions& options, std::uint64_t seed,
          Successor& newton, Effort& effort)
      : split_(split),
        held_(few_held_out(split)),
        options_(options),
        newton_(newton),
        effort_(effort),
        batches_(examples_of(split), first_batch(split), seed),
        course_(patience()),
        near_(options.near),
        out_{std::move(start), DescentEnd::out_of_steps, 0} {
    begin_from(out_.factors);
  }
  DescentResult run() {
    while (out_.steps < options_.most_steps) {
      step();
      const bool late = effort_.must_stop();
      if (!late && out_.steps % kLookEvery != 0) continue;
      look_around();
      if (late) return ended(DescentEnd::out_of_time);
      if (const std::optional<DescentEnd> end = worth_going_on()) return ended(*end);
    }
    const bool found = newton_.take_over(out_.factors, Successor::Try::last);
    return ended(found ? DescentEnd::found : DescentEnd::out_of_steps);
  }

 private:
  Index dim() const { return split_.train_x.cols; }
  Index patience() const { return with_dim(kPatience, dim()); }
  DescentResult ended(DescentEnd end) {
    out_.end = end;
    return std::move(out_);
  }
  void begin_from(const Factors& factors) {
    machine_.reset();  // not two of them at once
    machine_ = effort_.context().machine.make_factor_descent(split_.train(), factors.ranks, factors.values,
                                                             effort_.context());
  }
  void step() {
    const double squares = machine_->step(batches_.next(), slower_ * rate_at(options_, dim(), out_.steps));
    if (squares >= 0) mean_ += 0.1 * (squares - mean_);
    ++effort_.steps;
    ++out_.steps;
    if (out_.steps % 10 == 0) effort_.report("descend", out_.steps, mean_, out_.factors.heads());
  }
  void look_around() {
    Place place = look(*machine_, held_, out_.factors, effort_);
    out_.factors = std::move(place.factors);
    out_.factors.train_error = std::sqrt(mean_);
    effort_.trace.push_back({"descend", out_.factors.heads(), effort_.seconds(), out_.factors.train_error,
                             out_.steps, out_.factors.held_out_error});
    newton_.look(out_.factors);
    if (!place.noisy) return;
    machine_->go_to_mean();
    const Index most = largest_batch(split_);
    if (batches_.size() < most)
      batches_.grow_to(std::min(kLarger * batches_.size(), most));
    else
      slower_ *= kSlower;
  }
  std::optional<DescentEnd> worth_going_on() {
    course_.look(out_.steps, out_.factors);
    if (course_.overfits()) return DescentEnd::overfits;
    if (renews()) return {};
    const bool flat = course_.is_flat(out_.steps);
    if (out_.factors.held_out_error < near_ || flat) {
      const bool patient = flat || is_fully_grown();
      if (newton_.take_over(out_.factors, patient ? Successor::Try::last : Successor::Try::early))
        return DescentEnd::found;
      const bool first = near_ == options_.near;
      near_ = std::min(near_, out_.factors.held_out_error) / 2;
      if (!first && !flat) merge_for_good();
    }
    return flat ? std::optional(DescentEnd::flat) : std::nullopt;
  }
  // Steps cost as much as Newton's then.
  bool is_fully_grown() const {
    return batches_.size() > first_batch(split_) && batches_.size() == largest_batch(split_);
  }
  void merge_for_good() {
    if (merged_) return;
    std::optional<Factors> fewer = newton_.with_heads_asked_for(out_.factors);
    if (!fewer) return;
    merged_ = true;
    begin_again(std::move(*fewer));
  }
  // On a plateau some head of the layer is missing and several students share another. Students that share
  // are one, and the places that this leaves begin anew, once.
  bool renews() {
    if (renewed_ || !course_.is_slow(out_.steps) || out_.factors.held_out_error <= options_.near)
      return false;
    renewed_ = true;
    std::optional<Factors> fresh = newton_.with_fresh_heads(out_.factors);
    if (!fresh) return false;
    fresh->held_out_error = out_.factors.held_out_error;
    begin_again(std::move(*fresh));
    return true;
  }
  void begin_again(Factors from) {
    begin_from(from);
    from.train_error = out_.factors.train_error;
    out_.factors = std::move(from);
    course_ = Course(patience());
    slower_ = 1;
  }

  const Split& split_;
  const Split held_;
  const DescentOptions& options_;
  Successor& newton_;
  Effort& effort_;
  Batches batches_;
  Course course_;
  std::unique_ptr<backend::FactorDescent> machine_;
  double mean_ = 1, near_, slower_ = 1;  // mean: of the batches' relative squares, running
  bool renewed_ = false, merged_ = false;
  DescentResult out_;
};

}  // namespace

DescentResult descend(const Split& split, Factors start, const DescentOptions& options, std::uint64_t seed,
                      Successor& newton, Effort& effort) {
  return Descent(split, std::move(start), options, seed, newton, effort).run();
}

}  // namespace headlens::recovery
