#include "recover/levenberg_marquardt.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "recover/normal_equations.hpp"

namespace headlens {
namespace {

constexpr double kSmallestRidge = 1e-14;
constexpr int kMaxRejections = 14;
constexpr std::size_t kLinger = 5;
constexpr double kLittle = 0.9;
constexpr double kTightest = 1e-4;  // of a step's equations: what float can give

// The equations of a step need few digits, so they are solved in float, at half the cost; the gradient and
// the cost are in double. A step that was rejected is tried again in double.
class Tangents {
 public:
  explicit Tangents(VariableProjection& problem) : problem_(problem) {}
  void forget() { single_moved_ = double_moved_ = false; }

  Step solve(const VariableProjection::Point& point, const Matrix<double>& gradient, double mu,
             double tolerance, int cap, const Preconditioner& preconditioner, bool exact,
             const std::function<bool()>& expired) {
    if (exact)
      return solve_step(moved(double_, double_moved_, point), gradient, mu, tolerance, cap, preconditioner,
                        expired);
    return solve_step(moved(single_, single_moved_, point), gradient, mu, tolerance, cap, preconditioner,
                      expired);
  }

 private:
  template <class T>
  const Tangent<T>& moved(std::optional<Tangent<T>>& tangent, bool& done,
                          const VariableProjection::Point& point) {
    if (!tangent) tangent.emplace(problem_);
    if (!done) tangent->move_to(point);
    done = true;
    return *tangent;
  }

  VariableProjection& problem_;
  std::optional<Tangent<float>> single_;
  std::optional<Tangent<double>> double_;
  bool single_moved_ = false, double_moved_ = false;
};

}  // namespace

LmResult minimise(VariableProjection& problem, VariableProjection::Point& point, const LmOptions& options,
                  const std::function<bool()>& expired, const LmProgress& progress) {
  const double y2 = std::max(problem.y_squares(), 1e-300);
  const double unit = y2 / static_cast<double>(problem.heads() * problem.dim() * problem.dim());
  double ridge = options.ridge, mu = options.mu, nu = 2;
  LmResult result;
  VariableProjection::Point trial = problem.make_point();
  problem.evaluate(std::move(point.theta), ridge, point);
  Preconditioner preconditioner;
  Tangents tangents(problem);
  std::vector<double> history;
  int rejections = 0, accepted = 0, flat = 0;
  bool fresh = false;
  Matrix<double> gradient(problem.dim(), problem.heads() * problem.dim());
  for (; result.steps < options.max_steps; ++result.steps) {
    result.relative_squares = point.squares / y2;
    history.push_back(result.relative_squares);
    progress(result.steps, result.relative_squares);
    if (!point.finite || expired()) {
      result.status = point.finite ? LmStatus::out_of_time : LmStatus::stalled;
      return result;
    }
    if (result.relative_squares < options.tolerance) {
      result.status = LmStatus::converged;
      return result;
    }
    const auto window = static_cast<std::size_t>(options.stall_steps);
    const bool slow = history.size() > window &&
                      history.back() > options.stall_factor * history[history.size() - 1 - window];
    if (slow || rejections > kMaxRejections) {
      result.status = LmStatus::stalled;
      return result;
    }
    const bool lingers = history.size() > kLinger && history.size() % kLinger == 0 && rejections == 0 &&
                         history.back() > kLittle * history[history.size() - 1 - kLinger];
    if (lingers && options.is_noise && options.is_noise(point)) {
      result.status = LmStatus::minimum;
      return result;
    }
    if (rejections == 0) {
      problem.linearise(point);
      problem.gradient(point, gradient);
    }
    if (!fresh && accepted % 2 == 0) preconditioner.refresh(problem, point), fresh = true;
    preconditioner.shift(mu * unit);
    const double tolerance = std::clamp(std::sqrt(result.relative_squares), kTightest, 0.1);
    const Step step = tangents.solve(point, gradient, mu * unit, tolerance, options.max_inner, preconditioner,
                                     rejections > 0, expired);
    result.inner += step.inner;
    flat = step.predicted < options.flat * point.cost ? flat + 1 : 0;
    if (flat == 3) {
      result.status = LmStatus::minimum;
      return result;
    }
    Matrix<double> theta = copy_of(point.theta);
    add(1.0, step.direction, theta);
    problem.evaluate(std::move(theta), ridge, trial);
    const double rho = (point.cost - trial.cost) / std::max(step.predicted, 1e-300);
    if (trial.finite && trial.cost < point.cost) {
      std::swap(point, trial);
      mu = std::max(1e-16, mu * std::max(0.2, 1 - std::pow(2 * rho - 1, 3)));
      nu = 2;
      rejections = 0;
      ++accepted;
      fresh = false;
      const double next = std::max(kSmallestRidge, std::min(0.7 * ridge, 1e-2 * point.squares / y2));
      if (next < ridge) {
        ridge = next;
        problem.solve_for_w(ridge, point);
      }
      tangents.forget();
    } else {
      mu *= nu;
      nu *= 2;
      ++rejections;
    }
  }
  result.status = LmStatus::out_of_steps;
  return result;
}

}  // namespace headlens
