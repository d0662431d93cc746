#include "fit/convex/norm_ball.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fit/convex/ball_geometry.hpp"
#include "fit/convex/intercept.hpp"
#include "fit/convex/newton_system.hpp"
#include "headlens/error.hpp"

namespace headlens::training {
namespace {

// V with everything that follows from it.
struct Point {
  Block v, image;                 // V, Phi V
  std::vector<double> intercept;  // the best b
  Block scores;
  double value = 0;  // h(V), of the smoothed loss
};

Block extrapolate(const Block& a, const Block& before, double t) {
  Block out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + t * (a[i] - before[i]);
  return out;
}

Block difference(Block a, const Block& b) {
  add_scaled(a, -1, b);
  return a;
}

class BallSolver {
 public:
  BallSolver(const LossFunction& loss, const GroupedDesign& design, const NormBallOptions& options,
             const Execution& execution)
      : loss_(loss.kind() == Loss::hinge ? loss.smoothed(1) : loss),
        design_(design),
        groups_(design.group_of_row),
        options_(options),
        execution_(execution),
        n_(loss.rows()),
        p_(static_cast<Index>(design.group_of_row.size())),
        q_(loss.outputs()) {}

  NormBallSolution solve();

 private:
  MatrixView<const double> scores_view(const Block& a) const { return {a.data(), n_, q_}; }
  static double noise(const Point& at) { return 1e-14 * at.value; }  // rounding of h
  double scale() const { return std::max(sharp_objective_, floor_); }
  double gap() const { return std::max(0.0, sharp_objective_ - lower_); }
  double allowed() const { return options_.tolerance * scale(); }

  void begin();
  Block forward(const Block& v);
  Block gradient(const Point& at);
  void settle(Point& at);
  double estimate_lipschitz();
  double linearised_gap(const Block& slope) const;
  void certify();
  bool sharpen();
  Point momentum_point(double& next);
  Point gradient_step(const Point& from, const Block& slope);
  bool majorised(const Point& from, const Block& slope, const Point& to) const;
  void iterate();
  void accept(const Point& from, Point to, double next);
  NormBallSolution finish(FitStatus status) const;

  LossFunction loss_;
  const GroupedDesign& design_;
  Groups groups_;
  const NormBallOptions& options_;
  const Execution& execution_;
  Index n_, p_, q_;

  Point now_, before_;
  double lipschitz_ = 1, previous_lipschitz_ = 1;
  double momentum_ = 1;  // t of FISTA
  bool at_rounding_ = false;
  bool capped_ = false;
  double floor_ = 0, sharp_objective_ = 0, smooth_gap_ = 0, slack_ = 0;
  double lower_ = 0;  // every loss is >= 0; every certificate is a lower bound on min P
  int iterations_ = 0, applications_ = 0;
};

Block BallSolver::forward(const Block& v) {
  execution_.check_cancelled();
  Block out(static_cast<std::size_t>(n_ * q_));
  design_.forward({v.data(), p_, q_}, {out.data(), n_, q_});
  ++applications_;
  return out;
}

// G = Phi^T L'(F) + 2 ridge V: by b's optimality the gradient of h.
Block BallSolver::gradient(const Point& at) {
  execution_.check_cancelled();
  Block slopes(at.scores.size()), out(at.v.size());
  loss_.gradient(scores_view(at.scores), {slopes.data(), n_, q_});
  design_.adjoint(scores_view(slopes), {out.data(), p_, q_});
  ++applications_;
  add_scaled(out, 2 * options_.ridge, at.v);
  return out;
}

void BallSolver::settle(Point& at) {
  if (options_.intercept) {
    Intercept best = minimise_intercept(loss_, scores_view(at.image), at.intercept);
    at.intercept = std::move(best.values);
    capped_ = best.capped;
  }
  at.scores.resize(at.image.size());
  add_intercept(scores_view(at.image), at.intercept, {at.scores.data(), n_, q_});
  at.value = loss_.value(scores_view(at.scores)) + options_.ridge * inner(at.v, at.v);
  require(std::isfinite(at.value),
          "norm ball: the feature operators returned numbers that are not finite, or too ",
          "large: objective ", at.value);
}

void BallSolver::begin() {
  now_.v.assign(static_cast<std::size_t>(p_ * q_), 0.0);
  now_.image.assign(static_cast<std::size_t>(n_ * q_), 0.0);
  now_.intercept.assign(static_cast<std::size_t>(q_), 0.0);
  const double at_zero = loss_.sharp_value(scores_view(now_.image));
  settle(now_);
  floor_ = std::max(1e-3 * loss_.sharp_value(scores_view(now_.scores)), (capped_ ? 1e-6 : 1e-14) * at_zero);
  before_ = now_;
  previous_lipschitz_ = lipschitz_ = estimate_lipschitz();
}

// A Rayleigh quotient along the gradient: from below, but failed steps double it.
double BallSolver::estimate_lipschitz() {
  const Block slope = gradient(now_);
  const double size = inner(slope, slope);
  if (!(size > 0)) return 1;
  const Block image = forward(slope);
  double curved = 0;
  for (std::size_t e = 0; e < image.size(); ++e)
    curved += loss_.share(static_cast<Index>(e) / q_) * image[e] * image[e];
  const double out = loss_.curvature_bound() * curved / size + 2 * options_.ridge;
  return std::isfinite(out) && out > 0 ? out : 1;
}

// max_{S in ball} <G, V - S> - ridge |V - S|^2
double BallSolver::linearised_gap(const Block& slope) const {
  if (options_.ridge == 0)
    return inner(slope, now_.v) + support_of_norms(options_.ball, groups_.norms({slope.data(), p_, q_}));
  Block best = now_.v;
  add_scaled(best, -1 / (2 * options_.ridge), slope);
  groups_.project(options_.ball, {best.data(), p_, q_});
  const Block move = difference(now_.v, best);
  return inner(slope, move) - options_.ridge * inner(move, move);
}

void BallSolver::certify() {
  const double gap = linearised_gap(gradient(now_));
  require(std::isfinite(gap),
          "norm ball: the adjoint operator returned numbers that are not finite, or too large: ", "gap ",
          gap);
  smooth_gap_ = std::max(0.0, gap);
  slack_ = loss_.smoothing_slack(scores_view(now_.scores));
  sharp_objective_ = loss_.sharp_value(scores_view(now_.scores)) + options_.ridge * inner(now_.v, now_.v);
  lower_ = std::max(lower_, sharp_objective_ - smooth_gap_ - slack_);
}

// Lowers gamma once the smoothing dominates the bound, no further than the tolerance asks.
bool BallSolver::sharpen() {
  if (loss_.gamma() < 1e-12 || smooth_gap_ > 0.5 * slack_ || slack_ == 0) return false;
  const double needed = loss_.gamma() * 0.4 * allowed() / slack_;
  loss_ = loss_.smoothed(std::clamp(needed, 0.1 * loss_.gamma(), 0.5 * loss_.gamma()));
  settle(now_);
  before_ = now_;
  momentum_ = 1;
  at_rounding_ = false;
  return true;
}

Point BallSolver::momentum_point(double& next) {
  const double ratio = lipschitz_ / previous_lipschitz_;
  next = (1 + std::sqrt(1 + 4 * ratio * momentum_ * momentum_)) / 2;
  const double t = (momentum_ - 1) / next;
  Point out{
      extrapolate(now_.v, before_.v, t), extrapolate(now_.image, before_.image, t), now_.intercept, {}, 0};
  settle(out);
  return out;
}

Point BallSolver::gradient_step(const Point& from, const Block& slope) {
  Point out{from.v, {}, from.intercept, {}, 0};
  add_scaled(out.v, -1 / lipschitz_, slope);
  groups_.project(options_.ball, {out.v.data(), p_, q_});
  out.image = forward(out.v);
  settle(out);
  return out;
}

// h(to) <= h(from) + <G, d> + lipschitz / 2 |d|^2, up to rounding
bool BallSolver::majorised(const Point& from, const Block& slope, const Point& to) const {
  const Block move = difference(to.v, from.v);
  const double bound = from.value + inner(slope, move) + lipschitz_ / 2 * inner(move, move);
  return to.value <= bound + noise(from);
}

void BallSolver::iterate() {
  double next = 1;
  Point from = momentum_point(next);
  Block slope = gradient(from);
  Point to = gradient_step(from, slope);
  while (!majorised(from, slope, to)) {
    lipschitz_ *= 2;
    from = momentum_point(next);
    slope = gradient(from);
    to = gradient_step(from, slope);
  }
  ++iterations_;
  accept(from, std::move(to), next);
}

void BallSolver::accept(const Point& from, Point to, double next) {
  const Block back = difference(from.v, to.v);
  previous_lipschitz_ = lipschitz_;
  // Steps so short that rounding hides them say nothing about the curvature.
  if (lipschitz_ * inner(back, back) > 100 * noise(from)) lipschitz_ *= 0.9;
  at_rounding_ = to.v == now_.v && momentum_ == 1;
  if (to.value > now_.value + noise(now_)) {  // momentum went uphill: go back to a plain step, which cannot
    momentum_ = 1;
    before_ = now_;
    return;
  }
  momentum_ = inner(back, difference(to.v, now_.v)) > 0 ? 1 : next;
  before_ = std::exchange(now_, std::move(to));
}

NormBallSolution BallSolver::solve() {
  begin();
  for (;;) {
    certify();
    execution_.report_error("norm ball", gap() / scale(), options_.tolerance);
    if (gap() <= allowed()) return finish(FitStatus::solved);
    if (iterations_ >= options_.max_iterations || (!sharpen() && at_rounding_))
      return finish(FitStatus::stalled);
    for (int k = 0; k < 10 && !at_rounding_; ++k) {
      if (iterations_ >= options_.max_iterations) break;
      iterate();
    }
  }
}

NormBallSolution BallSolver::finish(FitStatus status) const {
  NormBallSolution out;
  out.status = status;
  out.values = Matrix<double>(p_, q_);
  std::copy(now_.v.begin(), now_.v.end(), out.values.data());
  out.scores = Matrix<double>(n_, q_);
  std::copy(now_.scores.begin(), now_.scores.end(), out.scores.data());
  out.intercept = now_.intercept;
  out.objective = sharp_objective_;
  out.loss = loss_.sharp_value(scores_view(now_.scores));
  out.gap = gap() > 0 ? gap() / scale() : 0;
  out.iterations = iterations_;
  out.operator_applications = applications_;
  out.intercept_capped = capped_;
  return out;
}

}  // namespace

void NormBallOptions::validate() const {
  require(ball.k1 > 0 && ball.k2 > 0, "norm ball: k1 is ", ball.k1, " and k2 is ", ball.k2,
          ", both must be positive");
  require(ridge >= 0 && std::isfinite(ridge), "norm ball: ridge is ", ridge, ", it must be finite and >= 0");
  require(ridge > 0 || std::isfinite(ball.k1) || std::isfinite(ball.k2),
          "norm ball: k1 and k2 are infinite and ridge is 0: nothing bounds the values");
  require(tolerance > 0 && tolerance < 1, "norm ball: tolerance is ", tolerance, ", it must lie in (0, 1)");
  require(max_iterations >= 0, "norm ball: ", max_iterations, " iterations");
}

NormBallSolution minimise_over_ball(const LossFunction& loss, const GroupedDesign& design,
                                    const NormBallOptions& options, const Execution& execution) {
  options.validate();
  return BallSolver(loss, design, options, execution).solve();
}

}  // namespace headlens::training
