#include "fit/convex/newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fit/convex/dual_iterate.hpp"
#include "fit/convex/hinge_path.hpp"
#include "fit/convex/intercept.hpp"
#include "headlens/error.hpp"

namespace headlens::training {
namespace {

class NewtonSolver : DualIterate {
 public:
  NewtonSolver(const LossFunction& loss, const BlockOperator& kernel, const NewtonOptions& options,
               const Execution& execution)
      : DualIterate(loss, kernel, options, execution, 1e-8) {}

  NewtonSolution solve(const DualPoint* start);

 private:
  void begin(const DualPoint* start);
  void settle_intercept();
  void certify();
  NewtonStep find_step();
  bool take(const NewtonStep& step);
  bool makes_progress();

  Block gradient_, kernel_gradient_;  // g, K g
  double radius_ = std::numeric_limits<double>::infinity();

  int steps_since_best_ = 0;
  double best_gap_ = std::numeric_limits<double>::infinity();
  double best_objective_ = std::numeric_limits<double>::infinity();
};

// The best db for a given K dA: S db = -1^T D K dA.
std::vector<double> best_shift(const Curvature& curvature, const InterceptSystem& system, const Block& in) {
  const auto columns = static_cast<std::size_t>(curvature.outputs());
  Block image(in.size());
  curvature.apply({in.data(), curvature.rows(), curvature.outputs()},
                  {image.data(), curvature.rows(), curvature.outputs()});
  std::vector<double> sums = column_sums(image, columns);
  for (double& s : sums) s = -s;
  return system.solve(std::move(sums));
}

void NewtonSolver::begin(const DualPoint* start) {
  const auto size = static_cast<std::size_t>(n_ * q_);
  dual_.assign(size, 0.0);
  kernel_dual_ = scores_ = gradient_ = dual_;
  intercept_.assign(static_cast<std::size_t>(q_), 0.0);
  // The scale of the problem: P at V = 0, and the rounding error of scores as large as the targets. With a
  // capped intercept P at V = 0 is of the size of the cap, 1e-13, and not a scale.
  const double at_zero = loss_.value(view(scores_));
  settle_intercept();
  floor_ = std::max(1e-6 * loss_.value(view(scores_)), (capped_ ? 1e-6 : 1e-14) * at_zero);
  if (!start) return;
  ensure(start->dual.rows() == n_ && start->dual.cols() == q_, "newton: start is ", start->dual.rows(), " x ",
         start->dual.cols(), ", scores are ", n_, " x ", q_);
  ensure(static_cast<Index>(start->intercept.size()) == q_, "newton: start has ", start->intercept.size(),
         " intercepts for ", q_, " outputs");
  dual_.assign(start->dual.data(), start->dual.data() + size);
  if (options_.intercept) intercept_ = start->intercept;
  refresh();
}

void NewtonSolver::settle_intercept() {
  if (options_.intercept) {
    Intercept best = minimise_intercept(loss_, view(kernel_dual_), intercept_);
    intercept_ = std::move(best.values);
    capped_ = best.capped;
  }
  add_intercept(view(kernel_dual_), intercept_, view(scores_));
}

void NewtonSolver::certify() {
  settle_intercept();
  loss_.gradient(view(scores_), view(gradient_));
  add_scaled(gradient_, 2 * options_.ridge, dual_);
  kernel_gradient_ = kernel_(gradient_);
  measure();
  const double size = inner(gradient_, kernel_gradient_);
  gap_ = std::max(0.0, size) / (4 * options_.ridge);
  require(std::isfinite(objective_) && std::isfinite(size) && std::isfinite(gap_),
          "newton: the kernel operator returned numbers that are not finite, or too large: objective ",
          objective_, ", <g, K g> ", size);
}

NewtonStep NewtonSolver::find_step() {
  const Curvature curvature = loss_.curvature(view(scores_));
  const InterceptSystem border(curvature.sum());
  const std::vector<double> none(static_cast<std::size_t>(q_), 0.0);
  const auto shift = [&](const Block& in) {
    return options_.intercept ? best_shift(curvature, border, in) : none;
  };
  CurvatureSystem system;
  system.curvature = [&](const Block& in) {  // D~ in = D (in + 1 db^T)
    Block shifted(in.size()), out(in.size());
    add_intercept(view(in), shift(in), view(shifted));
    curvature.apply(view(shifted), view(out));
    return out;
  };
  system.ridge = options_.ridge;
  // Superlinear convergence, but no more accuracy than the certificate asks for: the gap is quadratic in |r|.
  const double forcing = std::max(0.1 * tolerance_ * scale() / gap_, std::min(0.01, gap_ / scale()));
  system.enough = std::min(0.25, forcing) * inner(gradient_, kernel_gradient_);
  system.radius = radius_;
  system.max_iterations = options_.max_inner_iterations;
  Block rhs(dual_.size(), 0.0), kernel_rhs(dual_.size(), 0.0);
  add_scaled(rhs, -1, gradient_);
  add_scaled(kernel_rhs, -1, kernel_gradient_);
  NewtonStep step = training::solve(system, kernel_, std::move(rhs), std::move(kernel_rhs));
  step.intercept = shift(step.kernel_dual);
  return step;
}

// Armijo backtracking; P(t) = L(F + t dF) + ridge (|V|^2 + 2 t <dA, K A> + t^2 <dA, K dA>).
bool NewtonSolver::take(const NewtonStep& step) {
  Block shift(scores_.size()), trial(scores_.size());
  add_intercept(view(step.kernel_dual), step.intercept, view(shift));
  const double slope = inner(gradient_, step.kernel_dual);
  const double cross = inner(step.dual, kernel_dual_), square = inner(step.dual, step.kernel_dual);
  const double noise = 1e-14 * objective_;  // rounding of P: near the optimum a good step changes it by less
  if (!(slope < 0)) return false;
  for (double t = 1; t > 1e-12;) {
    trial = scores_;
    add_scaled(trial, t, shift);
    const double norm = norm_ + t * (2 * cross + t * square);
    const double change = loss_.value(view(trial)) + options_.ridge * norm - objective_;
    if (change <= 1e-4 * t * slope + noise) {
      add_scaled(dual_, t, step.dual);
      add_scaled(kernel_dual_, t, step.kernel_dual);
      add_scaled(intercept_, t, step.intercept);
      if (t < 1) radius_ = 2 * t * std::sqrt(square);
      if (t == 1 && step.at_radius) radius_ *= 4;
      return true;
    }
    const double parabola = -slope * t * t / (2 * (change - slope * t));
    t = std::isfinite(parabola) ? std::clamp(parabola, 0.1 * t, 0.5 * t) : 0.1 * t;
  }
  return false;
}

// Far from the optimum the gap may rise while P falls; ten steps in which neither improves mean that rounding
// (in K, usually) has been reached.
bool NewtonSolver::makes_progress() {
  const bool better = gap_ < 0.9 * best_gap_ || objective_ < best_objective_ - 1e-12 * scale();
  steps_since_best_ = better ? 0 : steps_since_best_ + 1;
  best_gap_ = std::min(best_gap_, gap_);
  best_objective_ = std::min(best_objective_, objective_);
  return steps_since_best_ < 10;
}

NewtonSolution NewtonSolver::solve(const DualPoint* start) {
  begin(start);
  for (;;) {
    certify();
    const double allowed = tolerance_ * scale();
    execution_.report_error("newton", gap_ / scale(), tolerance_);
    if (gap_ <= allowed && steps_since_refresh_ == 0) return finish(FitStatus::solved);
    // The certificate must rest on K A itself, not on sums of updates.
    if (gap_ <= allowed || steps_since_refresh_ >= 10) {
      refresh();
      continue;
    }
    if (iterations_ >= options_.max_iterations || !makes_progress()) return finish(FitStatus::stalled);
    if (take(find_step())) {
      ++iterations_;
      ++steps_since_refresh_;
    } else if (steps_since_refresh_ > 0) {
      refresh();
    } else {
      return finish(FitStatus::stalled);
    }
  }
}

}  // namespace

void NewtonOptions::validate() const {
  require(ridge > 0 && std::isfinite(ridge), "newton: ridge is ", ridge, ", it must be positive and finite");
  require(!tolerance || (*tolerance > 0 && *tolerance < 1), "newton: tolerance is ", tolerance.value_or(0),
          ", it must lie in (0, 1)");
  require(max_iterations >= 0 && max_inner_iterations > 0, "newton: ", max_iterations, " iterations of ",
          max_inner_iterations, " inner ones");
}

NewtonSolution minimise_newton(const LossFunction& loss, const BlockOperator& kernel,
                               const NewtonOptions& options, const Execution& execution,
                               const DualPoint* start) {
  options.validate();
  if (loss.kind() == Loss::hinge) return minimise_hinge(loss, kernel, options, execution);
  return NewtonSolver(loss, kernel, options, execution).solve(start);
}

}  // namespace headlens::training
