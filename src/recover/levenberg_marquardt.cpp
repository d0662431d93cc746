#include "recover/levenberg_marquardt.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"

namespace headlens {
namespace {

constexpr double kSmallestRidge = 1e-14;
constexpr int kMaxRejections = 14;
// Promised decreases this small beside the cost, three times in a row: a minimum with a residual, i.e. noise.
constexpr double kFlat = 1e-9;

void add(double factor, const Matrix<double>& from, Matrix<double>& to) {
  for (Index i = 0; i < from.rows() * from.cols(); ++i) to.data()[i] += factor * from.data()[i];
}

Matrix<double> copy_of(const Matrix<double>& a) {
  Matrix<double> out(a.rows(), a.cols());
  std::copy_n(a.data(), a.rows() * a.cols(), out.data());
  return out;
}

// dTheta <- dTheta (B + mu)^-1, row by row of the (d, m d) matrix; the identity if B + mu cannot be factored.
class Preconditioner {
 public:
  void refresh(const VariableProjection& problem, const VariableProjection::Point& point) {
    curvature_ = problem.curvature(point, 16 * problem.heads() + 32);
  }
  void shift(double mu) {
    factor_ = copy_of(curvature_);
    for (Index j = 0; j < factor_.rows(); ++j) factor_(j, j) += mu;
    usable_ = cholesky(factor_, 1).ok();
  }
  Matrix<double> apply(const Matrix<double>& a) const {
    Matrix<double> out = copy_of(a);
    if (!usable_) return out;
    // x (L L^T)^-1 = (x L^-T) L^-1
    trsm(Side::right, Trans::yes, factor_.view(), out.view());
    trsm(Side::right, Trans::no, factor_.view(), out.view());
    return out;
  }

 private:
  Matrix<double> curvature_, factor_;
  bool usable_ = false;
};

struct Step {
  Matrix<double> direction;
  double predicted = 0;  // decrease of the model
  int inner = 0;
};

// Conjugate gradients from zero. The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last
// residual); both halves are doubled here, since cost is |r|^2 and not half of it.
Step solve_step(VariableProjection& problem, const VariableProjection::Point& point,
                const Matrix<double>& gradient, double mu, double tolerance, int cap,
                const Preconditioner& preconditioner) {
  const Index d = problem.dim(), columns = problem.heads() * d;
  Step step{Matrix<double>::zeros(d, columns), 0, 0};
  Matrix<double> residual = copy_of(gradient), image(d, columns), z(problem.rows(), problem.outputs());
  Matrix<double> scaled = preconditioner.apply(residual), search = copy_of(scaled);
  double rho = inner_product(residual, scaled);
  const double target = tolerance * std::sqrt(std::max(rho, 0.0));
  while (step.inner < cap && rho > 0) {
    problem.derivative(point, search, z);
    problem.project(point, z);
    problem.adjoint(point, z, image);
    add(mu, search, image);
    const double bend = inner_product(search, image);
    if (!(bend > 0)) break;
    const double alpha = rho / bend;
    add(alpha, search, step.direction);
    add(-alpha, image, residual);
    ++step.inner;
    scaled = preconditioner.apply(residual);
    const double next = inner_product(residual, scaled);
    if (!(std::sqrt(std::max(next, 0.0)) > target)) break;
    for (Index i = 0; i < d * columns; ++i)
      search.data()[i] = scaled.data()[i] + next / rho * search.data()[i];
    rho = next;
  }
  step.predicted = inner_product(step.direction, gradient) + inner_product(step.direction, residual) +
                   mu * squared_norm(step.direction);
  return step;
}

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
    problem.adjoint(point, point.residual, gradient);
    if (!fresh && accepted % 2 == 0) preconditioner.refresh(problem, point), fresh = true;
    preconditioner.shift(mu * unit);
    const double tolerance = std::clamp(std::sqrt(result.relative_squares), 1e-6, 0.1);
    const Step step =
        solve_step(problem, point, gradient, mu * unit, tolerance, options.max_inner, preconditioner);
    result.inner += step.inner;
    flat = step.predicted < kFlat * point.cost ? flat + 1 : 0;
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
        problem.evaluate(std::move(point.theta), ridge, point);
      }
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
