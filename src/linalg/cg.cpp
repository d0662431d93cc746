#include "linalg/cg.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "headlens/error.hpp"
#include "linalg/cg_recurrence.hpp"

namespace headlens {
namespace {

using Columns = CgSystem::Columns;

Columns column_dots(MatrixView<const double> x, MatrixView<const double> y) {
  Columns sums(static_cast<std::size_t>(x.cols), 0.0);
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) sums[std::size_t(j)] += x(i, j) * y(i, j);
  return sums;
}

// y = y + scale x, columnwise
void add_scaled(const Columns& scale, MatrixView<const double> x, MatrixView<double> y) {
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) y(i, j) += scale[std::size_t(j)] * x(i, j);
}

bool positive(double value) { return value > 0 && std::isfinite(value); }

// Columns that converge or break down become inactive: their p is 0.
class BlockSystem final : public CgSystem {
 public:
  BlockSystem(const BlockOperator& a, const BlockOperator& preconditioner, MatrixView<const double> rhs,
              MatrixView<double> solution, double tolerance, const CgCallback& on_iteration)
      : a_(a),
        preconditioner_(preconditioner),
        rhs_(rhs),
        x_(solution),
        tolerance_(tolerance),
        on_iteration_(on_iteration),
        r_(rhs.rows, rhs.cols),
        z_(rhs.rows, rhs.cols),
        p_(rhs.rows, rhs.cols),
        ap_(rhs.rows, rhs.cols),
        rhs_norm_(column_dots(rhs, rhs)),
        active_(rhs_norm_.size()) {
    for (double& norm : rhs_norm_) norm = std::sqrt(norm);
  }
  int iterations() const { return iterations_; }

  // r = b - A x, the columns above the tolerance become active. Returns the worst relative residual.
  double restart() {
    residual();
    const Columns relative = relative_residuals();
    for (std::size_t j = 0; j < active_.size(); ++j) active_[j] = relative[j] > tolerance_;
    std::fill_n(p_.data(), p_.rows() * p_.cols(), 0.0);
    return worst(relative);
  }

  Columns sizes() override {
    if (preconditioner_)
      preconditioner_(r_, z_);
    else
      copy_rows(r_, z_);
    Columns out = column_dots(r_, z_);
    for (std::size_t j = 0; j < active_.size(); ++j) active_[j] = active_[j] && positive(out[j]);
    return out;
  }

  bool goes_on(const Columns&) override { return true; }

  void turn(const Columns& beta) override {
    for (Index i = 0; i < p_.rows(); ++i)
      for (Index j = 0; j < p_.cols(); ++j) {
        const auto c = static_cast<std::size_t>(j);
        p_(i, j) = active_[c] ? z_(i, j) + beta[c] * p_(i, j) : 0.0;
      }
  }

  Columns curvatures() override {
    a_(p_, ap_);
    return column_dots(p_, ap_);
  }

  bool move(const Columns& alpha) override {
    Columns back(alpha.size());
    std::transform(alpha.begin(), alpha.end(), back.begin(), std::negate<>());
    add_scaled(alpha, p_, x_);
    add_scaled(back, ap_, r_);
    const Columns relative = relative_residuals();
    for (std::size_t j = 0; j < active_.size(); ++j)
      active_[j] = active_[j] && alpha[j] > 0 && relative[j] > tolerance_ && std::isfinite(relative[j]);
    ++iterations_;
    if (on_iteration_) on_iteration_(iterations_, worst(relative));
    return std::find(active_.begin(), active_.end(), true) != active_.end();
  }

 private:
  // r = b - A x. A product may be a pass over all data: none where x = 0.
  void residual() {
    bool zero = true;
    for (Index i = 0; zero && i < x_.rows; ++i)
      for (Index j = 0; zero && j < x_.cols; ++j) zero = x_(i, j) == 0;
    if (zero) return copy_rows(rhs_, r_);
    a_(x_, r_);
    for (Index i = 0; i < r_.rows(); ++i)
      for (Index j = 0; j < r_.cols(); ++j) r_(i, j) = rhs_(i, j) - r_(i, j);
  }

  Columns relative_residuals() const {
    Columns out = column_dots(r_, r_);
    for (std::size_t j = 0; j < out.size(); ++j) {
      // With b = 0 the answer is 0; a first guess other than that is measured absolutely.
      out[j] = std::sqrt(out[j]) / (rhs_norm_[j] > 0 ? rhs_norm_[j] : 1.0);
      if (!std::isfinite(out[j])) out[j] = std::numeric_limits<double>::infinity();
    }
    return out;
  }

  static double worst(const Columns& relative) {
    return relative.empty() ? 0.0 : *std::max_element(relative.begin(), relative.end());
  }

  const BlockOperator& a_;
  const BlockOperator& preconditioner_;
  MatrixView<const double> rhs_;
  MatrixView<double> x_;
  double tolerance_;
  const CgCallback& on_iteration_;
  Matrix<double> r_, z_, p_, ap_;
  Columns rhs_norm_;
  std::vector<bool> active_;
  int iterations_ = 0;
};

}  // namespace

CgResult conjugate_gradients(const BlockOperator& a, const BlockOperator& preconditioner,
                             MatrixView<const double> rhs, MatrixView<double> solution,
                             const CgOptions& options, const CgCallback& on_iteration) {
  ensure(solution.rows == rhs.rows && solution.cols == rhs.cols, "conjugate_gradients: rhs (", rhs.rows,
         " x ", rhs.cols, "), solution (", solution.rows, " x ", solution.cols, ")");
  CgResult out;
  if (rhs.rows == 0 || rhs.cols == 0) return out;
  BlockSystem system(a, preconditioner, rhs, solution, options.tolerance, on_iteration);
  double before = std::numeric_limits<double>::infinity();
  while (true) {
    out.relative_residual = system.restart();
    out.iterations = system.iterations();
    if (out.relative_residual <= options.tolerance) return out;
    // A restart that does not halve the true residual has met the limit of the arithmetic.
    const bool stuck = !(out.relative_residual < before / 2);
    if (stuck || out.iterations >= options.max_iterations) break;
    before = out.relative_residual;
    iterate(system, options.max_iterations - out.iterations);
  }
  out.status = CgStatus::stalled;
  return out;
}

}  // namespace headlens
