#include "fit/convex/hinge_path.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "fit/convex/dual_iterate.hpp"
#include "fit/convex/intercept.hpp"
#include "headlens/error.hpp"

namespace headlens::training {
namespace {

struct SlackStep {
  Block level, xi, eta;
};

class HingePath : DualIterate {
 public:
  HingePath(const LossFunction& loss, const BlockOperator& kernel, const NewtonOptions& options,
            const Execution& execution)
      : DualIterate(loss.smoothed(0), kernel, options, execution, 1e-6) {}

  NewtonSolution follow();

 private:
  std::size_t column(std::size_t e) const { return e % at(q_); }
  double margin(std::size_t e) const { return 1 - sign_[e] * scores_[e]; }
  double dual_of(std::size_t e) const { return sign_[e] * share_[e] * level_[e] / (2 * options_.ridge); }

  void begin();
  void begin_column(Index c);
  double zero_objective() const;
  double estimate_kernel_scale();
  void shorten_start();
  void open_slacks();
  void certify();
  bool makes_progress();
  double centrality() const;
  NewtonStep find_step(double mu);
  SlackStep slack_step(const NewtonStep& step, double mu) const;
  double longest(const SlackStep& step) const;
  void take(const NewtonStep& step, const SlackStep& slacks);

  // Entries that do not take part (weight 0; a column of one class) have share 0 and dual 0.
  Block sign_, share_;
  Block level_, xi_, eta_;  // a and the slacks
  double active_ = 0;       // sum of the shares: the number of columns that take part
  double kernel_scale_ = 0;
  double best_gap_ = 0;
  double step_length_ = 0.5;
  int steps_since_best_ = 0;
};

// 1^T A = 0 from the start: the smaller class gets a = 1/2. With an intercept a column of one class has V =
// 0, and loss 0 at b = +-1.
void HingePath::begin_column(Index c) {
  double positive = 0, negative = 0;
  for (Index i = 0; i < n_; ++i) (loss_.target(i, c) > 0 ? positive : negative) += loss_.share(i);
  if (options_.intercept && (positive == 0 || negative == 0)) {
    intercept_[at(c)] = positive > 0 ? 1 : -1;
    return;
  }
  for (Index i = 0; i < n_; ++i) {
    const std::size_t e = at(i * q_ + c);
    const double own = sign_[e] > 0 ? positive : negative;
    share_[e] = loss_.share(i);
    level_[e] = options_.intercept ? std::min(positive, negative) / (2 * own) : 0.5;
    dual_[e] = dual_of(e);
  }
  active_ += positive + negative;
}

double HingePath::zero_objective() const {
  Block zero(share_.size(), 0.0), scores(share_.size());
  const std::vector<double> best =
      options_.intercept ? minimise_intercept(loss_, view(zero), intercept_).values : intercept_;
  add_intercept(view(zero), best, view(scores));
  return loss_.value(view(scores));
}

// z^T K z for random signs z has the trace as its mean. Only the preconditioner uses it.
double HingePath::estimate_kernel_scale() {
  Stream random(0, "hinge kernel scale");
  Block signs(share_.size());
  for (double& z : signs) z = random.bits() & 1 ? 1 : -1;
  return std::max(0.0, inner(signs, kernel_(signs))) / static_cast<double>(signs.size());
}

// The dual objective along t A, t sum c a - t^2 ridge |V|^2, is best at t = sum c a / (2 ridge |V|^2); at a
// small ridge A as it stands would start orders of magnitude away.
void HingePath::shorten_start() {
  std::vector<double> linear(at(q_), 0.0), square(at(q_), 0.0);
  for (std::size_t e = 0; e < share_.size(); ++e) {
    linear[column(e)] += share_[e] * level_[e];
    square[column(e)] += 2 * options_.ridge * dual_[e] * kernel_dual_[e];
  }
  for (std::size_t e = 0; e < share_.size(); ++e) {
    const std::size_t c = column(e);
    const double t = square[c] > linear[c] ? linear[c] / square[c] : 1;
    level_[e] *= t;
    dual_[e] *= t;
    kernel_dual_[e] *= t;
  }
}

void HingePath::open_slacks() {
  double size = 0;
  for (std::size_t e = 0; e < share_.size(); ++e) size += share_[e] * std::abs(margin(e));
  const double offset = active_ > 0 ? std::max(size / active_, 1e-3) : 1;
  for (std::size_t e = 0; e < share_.size(); ++e) {
    xi_[e] = std::max(0.0, margin(e)) + offset;
    eta_[e] = std::max(0.0, -margin(e)) + offset;
  }
}

void HingePath::begin() {
  const std::size_t size = at(n_ * q_);
  share_.assign(size, 0.0);
  sign_ = level_ = xi_ = eta_ = dual_ = scores_ = share_;
  intercept_.assign(at(q_), 0.0);
  for (Index i = 0; i < n_; ++i)
    for (Index c = 0; c < q_; ++c) sign_[at(i * q_ + c)] = loss_.target(i, c);
  floor_ = std::max(1e-6 * zero_objective(), 1e-14);
  for (Index c = 0; c < q_; ++c) begin_column(c);
  kernel_dual_ = kernel_(dual_);
  kernel_scale_ = estimate_kernel_scale();
  shorten_start();
  certify();
  open_slacks();
  best_gap_ = gap_;
}

void HingePath::certify() {
  add_intercept(view(kernel_dual_), intercept_, view(scores_));
  measure();
  gap_ = 0;
  for (std::size_t e = 0; e < share_.size(); ++e)
    gap_ += share_[e] * (std::max(0.0, margin(e)) - level_[e] * margin(e));
  require(std::isfinite(objective_) && std::isfinite(gap_),
          "hinge: the kernel operator returned numbers that are not finite, or too large: objective ",
          objective_, ", gap ", gap_);
}

// The mean of both complementarity products.
double HingePath::centrality() const {
  double sum = 0;
  for (std::size_t e = 0; e < share_.size(); ++e)
    sum += share_[e] * (xi_[e] * (1 - level_[e]) + eta_[e] * level_[e]);
  return sum / (2 * active_);
}

NewtonStep HingePath::find_step(double mu) {
  Block rhs(share_.size(), 0.0);
  WeightedSystem system{Block(share_.size(), 0.0), kernel_scale_, at(q_), options_.intercept, {}, 0};
  for (std::size_t e = 0; e < share_.size(); ++e) {
    if (share_[e] == 0) continue;
    const double a = level_[e], rest = 1 - a;
    rhs[e] = sign_[e] * (margin(e) - mu / rest + mu / a);
    system.weights[e] = 2 * options_.ridge / share_[e] * (xi_[e] / rest + eta_[e] / a);
  }
  // The residual reappears in a complementarity product, times a or 1 - a (see slack_step). Every product
  // must stay near mu: one that does not shortens all later steps.
  system.enough = [&](const Block& residual) {
    double worst = 0;
    for (std::size_t e = 0; e < residual.size(); ++e)
      if (share_[e] > 0) worst = std::max(worst, std::min(level_[e], 1 - level_[e]) * std::abs(residual[e]));
    return worst <= 0.3 * mu;
  };
  system.max_iterations = options_.max_inner_iterations;
  return solve(system, kernel_, rhs);
}

// 1 - s F = xi - eta is kept exactly; what CG left over goes to the slack whose factor (a or 1 - a) is
// smaller.
SlackStep HingePath::slack_step(const NewtonStep& step, double mu) const {
  SlackStep out{Block(share_.size(), 0.0), Block(share_.size(), 0.0), Block(share_.size(), 0.0)};
  for (std::size_t e = 0; e < share_.size(); ++e) {
    if (share_[e] == 0) continue;
    const double a = level_[e], rest = 1 - a;
    const double change = 2 * options_.ridge * sign_[e] * step.dual[e] / share_[e];
    const double rise = sign_[e] * (step.kernel_dual[e] + step.intercept[column(e)]);
    const double difference = margin(e) - xi_[e] + eta_[e] - rise;  // of the slack changes
    out.level[e] = change;
    if (a < 0.5) {
      out.xi[e] = (mu - xi_[e] * rest + xi_[e] * change) / rest;
      out.eta[e] = out.xi[e] - difference;
    } else {
      out.eta[e] = (mu - eta_[e] * a - eta_[e] * change) / a;
      out.xi[e] = out.eta[e] + difference;
    }
  }
  return out;
}

// As far as 99% of the way to the boundary, and at most 1.
double HingePath::longest(const SlackStep& step) const {
  double t = 1 / 0.99;
  const auto limit = [&t](double value, double change) {
    if (change < 0) t = std::min(t, -value / change);
  };
  for (std::size_t e = 0; e < share_.size(); ++e) {
    limit(level_[e], step.level[e]);
    limit(1 - level_[e], -step.level[e]);
    limit(xi_[e], step.xi[e]);
    limit(eta_[e], step.eta[e]);
  }
  return 0.99 * t;
}

void HingePath::take(const NewtonStep& step, const SlackStep& slacks) {
  step_length_ = longest(slacks);
  add_scaled(level_, step_length_, slacks.level);
  add_scaled(xi_, step_length_, slacks.xi);
  add_scaled(eta_, step_length_, slacks.eta);
  for (std::size_t e = 0; e < share_.size(); ++e) dual_[e] = dual_of(e);
  add_scaled(kernel_dual_, step_length_, step.kernel_dual);
  add_scaled(intercept_, step_length_, step.intercept);
  ++iterations_;
  ++steps_since_refresh_;
}

bool HingePath::makes_progress() {
  steps_since_best_ = gap_ < 0.9 * best_gap_ ? 0 : steps_since_best_ + 1;
  best_gap_ = std::min(best_gap_, gap_);
  return steps_since_best_ < 20;
}

NewtonSolution HingePath::follow() {
  begin();
  for (;;) {
    certify();
    const double relative = gap_ / scale();
    execution_.report_error("hinge", relative, tolerance_);
    if (relative <= tolerance_ && steps_since_refresh_ == 0) return finish(FitStatus::solved);
    // The certificate must rest on K A itself, not on sums of updates.
    if (relative <= tolerance_ || steps_since_refresh_ >= 10) {
      refresh();
      continue;
    }
    if (iterations_ >= options_.max_iterations || !makes_progress()) return finish(FitStatus::stalled);
    // A short step means that the products are uneven: aim less low. Never lower than the tolerance asks.
    const double reduction = step_length_ > 0.9 ? 0.1 : step_length_ > 0.5 ? 0.3 : 0.7;
    const double mu = std::max(reduction * centrality(), 0.1 * tolerance_ * scale() / active_);
    const NewtonStep step = find_step(mu);
    take(step, slack_step(step, mu));
  }
}

}  // namespace

NewtonSolution minimise_hinge(const LossFunction& loss, const BlockOperator& kernel,
                              const NewtonOptions& options, const Execution& execution) {
  options.validate();
  return HingePath(loss, kernel, options, execution).follow();
}

}  // namespace headlens::training
