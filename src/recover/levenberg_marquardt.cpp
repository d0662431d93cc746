#include "recover/levenberg_marquardt.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

using backend::LayerPoint;
using backend::LayerProblem;
using backend::Step;

constexpr double kSmallestRidge = 1e-14;
constexpr int kMaxRejections = 14;
constexpr std::size_t kLinger = 5;
constexpr double kLittle = 0.9, kMuch = 0.1;  // of squares

// The gradient and the cost are in double. The equations of a step are solved in float, and again in double
// where the step was rejected.
class Minimisation {
 public:
  Minimisation(const LayerProblem& problem, std::unique_ptr<LayerPoint>& point, const LmOptions& options)
      : problem_(problem),
        point_(point),
        options_(options),
        labels_(std::max(problem.y_squares(), 1e-300)),
        unit_(labels_ / problem.unknowns()),
        ridge_(options.ridge),
        mu_(options.mu),
        trial_(problem.make_point()),
        model_(problem.make_linear_model()),
        gradient_(point->parameters.rows(), point->parameters.cols()) {
    problem_.evaluate(std::move(point_->parameters), ridge_, *point_);
  }

  LmResult run(const std::function<bool()>& expired, const LmProgress& progress);

 private:
  double relative_squares() const { return point_->squares / labels_; }
  std::optional<LmStatus> ends(const std::function<bool()>& expired) const;
  bool is_slow() const;
  bool lingers() const;
  void linearise();
  Step solve(const std::function<bool()>& expired);
  void try_step(const Step& step);
  void accept(double ratio);
  void reject();

  const LayerProblem& problem_;
  std::unique_ptr<LayerPoint>& point_;
  const LmOptions& options_;
  double labels_, unit_;  // |Y|^2, and |Y|^2 per unknown
  double ridge_, mu_, nu_ = 2;
  std::unique_ptr<LayerPoint> trial_;
  std::unique_ptr<backend::LinearModel> model_;
  Matrix<double> gradient_;
  std::vector<double> history_;  // relative squares, step by step
  int rejections_ = 0, accepted_ = 0, flat_ = 0;
  bool fresh_ = false;  // the preconditioner
};

bool Minimisation::is_slow() const {
  const auto window = static_cast<std::size_t>(options_.stall_steps);
  return history_.size() > window &&
         history_.back() > options_.stall_factor * history_[history_.size() - 1 - window];
}

bool Minimisation::lingers() const {
  return history_.size() > kLinger && history_.size() % kLinger == 0 && rejections_ == 0 &&
         history_.back() > kLittle * history_[history_.size() - 1 - kLinger];
}

// Why the run ends here, if it does.
std::optional<LmStatus> Minimisation::ends(const std::function<bool()>& expired) const {
  if (!point_->finite) return LmStatus::stalled;
  if (expired()) return LmStatus::out_of_time;
  if (relative_squares() < options_.tolerance) return LmStatus::converged;
  if (is_slow() || rejections_ > kMaxRejections) return LmStatus::stalled;
  if (lingers() && options_.is_noise && options_.is_noise(problem_, *point_)) return LmStatus::minimum;
  return std::nullopt;
}

void Minimisation::linearise() {
  if (rejections_ == 0) {
    problem_.linearise(*point_);
    problem_.gradient(*point_, gradient_);
    if (options_.clean) options_.clean(point_->parameters, gradient_);
    model_->move_to(*point_);
  }
  // A preconditioner serves two accepted steps.
  if (!fresh_ && accepted_ % 2 == 0) {
    model_->refresh_preconditioner(*point_);
    fresh_ = true;
  }
  model_->shift_preconditioner(mu_ * unit_);
}

Step Minimisation::solve(const std::function<bool()>& expired) {
  const double tolerance = std::clamp(std::sqrt(relative_squares()), options_.tightest, 0.1);
  return model_->solve(gradient_, mu_ * unit_, tolerance, options_.max_inner,
                       rejections_ > 0 ? Precision::f64 : Precision::f32, expired);
}

void Minimisation::try_step(const Step& step) {
  Matrix<double> parameters = copy_of(point_->parameters);
  add(1.0, step.direction, parameters);
  problem_.evaluate(std::move(parameters), ridge_, *trial_);
  const double ratio = (point_->cost - trial_->cost) / std::max(step.predicted, 1e-300);
  if (trial_->finite && trial_->cost < point_->cost)
    accept(ratio);
  else
    reject();
}

void Minimisation::accept(double ratio) {
  std::swap(point_, trial_);
  mu_ = std::max(1e-16, mu_ * std::max(0.2, 1 - std::pow(2 * ratio - 1, 3)));
  nu_ = 2;
  rejections_ = 0;
  ++accepted_;
  fresh_ = false;
  const double next = std::max(kSmallestRidge, std::min(0.7 * ridge_, 1e-2 * relative_squares()));
  if (next >= ridge_) return;
  ridge_ = next;
  problem_.solve_for_w(ridge_, *point_);
}

void Minimisation::reject() {
  mu_ *= nu_;
  nu_ *= 2;
  ++rejections_;
}

LmResult Minimisation::run(const std::function<bool()>& expired, const LmProgress& progress) {
  LmResult result;
  const auto ended = [&](LmStatus status) {
    result.status = status;
    return result;
  };
  for (; result.steps < options_.max_steps; ++result.steps) {
    result.relative_squares = relative_squares();
    history_.push_back(result.relative_squares);
    progress(result.steps, result.relative_squares);
    if (const std::optional<LmStatus> status = ends(expired)) return ended(*status);
    linearise();
    const Step step = solve(expired);
    result.inner += step.inner;
    flat_ = step.predicted < options_.flat * point_->cost ? flat_ + 1 : 0;
    if (flat_ == 3) return ended(LmStatus::minimum);
    try_step(step);
    const bool capped = options_.ends_capped && step.inner >= options_.max_inner;
    if (capped && relative_squares() > kMuch * result.relative_squares) {
      result.relative_squares = relative_squares();
      return ended(LmStatus::capped);
    }
  }
  return ended(LmStatus::out_of_steps);
}

}  // namespace

LmResult minimise(const LayerProblem& problem, std::unique_ptr<LayerPoint>& point, const LmOptions& options,
                  const std::function<bool()>& expired, const LmProgress& progress) {
  return Minimisation(problem, point, options).run(expired, progress);
}

}  // namespace headlens::recovery
