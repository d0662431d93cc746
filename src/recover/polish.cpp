#include "recover/polish.hpp"

#include <cmath>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/qr.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/bounds.hpp"

namespace headlens::recovery {
namespace {

constexpr int kMostPolishSteps = 100, kMostRejections = 10;
constexpr double kFirstDamping = 1e-12, kLeastDamping = 1e-15;  // in units of the squared columns of P_perp J
constexpr double kSlow = 0.9;  // of the squared residual: what is left after a step that hardly helps
constexpr int kSlowSteps = 10;
constexpr Index kCostly = 400;  // entries of Theta from which on a step takes a tenth of a second or more
constexpr double kNothingLeft = 1e-6;  // of the squared residual: what the next step could still remove

// argmin |L^T step - along|^2 + damping sum_j |column_j|^2 step_j^2
Matrix<double> damped_step(const Linearisation& at, double damping) {
  const Index p = at.factor.rows();
  Matrix<double> step = copy_of(at.along);
  if (damping == 0) {
    trsm(Side::left, Trans::yes, at.factor, step);
    return step;
  }
  Matrix<double> stacked = Matrix<double>::zeros(2 * p, p);
  for (Index j = 0; j < p; ++j) {
    double squares = 0;
    for (Index i = 0; i <= j; ++i) {
      stacked(i, j) = at.factor(j, i);
      squares += at.factor(j, i) * at.factor(j, i);
    }
    stacked(p + j, j) = std::sqrt(damping * squares);
  }
  const TallQr qr(std::move(stacked));
  Matrix<double> right = Matrix<double>::zeros(2 * p, 1);
  copy_rows(at.along, right.view().block(0, 0, p, 1));
  qr.rotate(right);
  copy_rows(right.view().block(0, 0, p, 1), step);
  trsm(Side::left, Trans::yes, qr.factor(), step);
  return step;
}

}  // namespace

std::optional<Linearisation> polish(const Split& dense, const Matrix<double>& theta, const std::string& phase,
                                    Effort& effort) {
  std::optional<Linearisation> at = linearise(dense, theta, effort.threads());
  if (!at) return at;
  return polish(dense, std::move(*at), phase, effort);
}

std::optional<Linearisation> polish(const Split& dense, Linearisation at, const std::string& phase,
                                    Effort& effort) {
  const double y_squares = squared_norm(dense.train_y);
  const Index heads = at.theta.cols() / at.theta.rows();
  double damping = 0;
  int rejections = 0, slow = 0;
  for (int step = 0; step < kMostPolishSteps && rejections < kMostRejections && slow < kSlowSteps; ++step) {
    const double relative = at.squares / y_squares;
    effort.trace.push_back({phase, heads, effort.seconds(), std::sqrt(relative), step, {}});
    effort.report(phase, step, relative, heads);
    ++effort.steps;
    if (effort.must_stop() || squared_norm(at.along) < kNothingLeft * at.beyond) break;
    if (at.along.rows() > kCostly && at_rounding(at)) break;
    Matrix<double> theta = damped_step(at, damping);
    for (Index i = 0; i < theta.rows(); ++i) theta.data()[i] += at.theta.data()[i];
    Matrix<double> packed(at.theta.rows(), at.theta.cols());
    std::copy_n(theta.data(), theta.rows(), packed.data());
    const std::optional<Projected> trial = project(dense, packed, effort.threads());
    std::optional<Linearisation> next;
    if (trial && trial->squares < at.squares) next = linearise(dense, packed, effort.threads());
    if (!next) {
      damping = std::max(10 * damping, kFirstDamping);
      ++rejections;
      continue;
    }
    slow = next->squares > kSlow * at.squares ? slow + 1 : 0;
    at = std::move(*next);
    damping = damping > kLeastDamping ? damping / 10 : 0;
    rejections = 0;
  }
  return at;
}

}  // namespace headlens::recovery
