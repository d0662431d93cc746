#include "linalg/cg.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headlens/error.hpp"

namespace headlens {
namespace {

using Columns = std::vector<double>;  // one number a column

Columns column_dots(MatrixView<const double> x, MatrixView<const double> y) {
  Columns sums(static_cast<std::size_t>(x.cols), 0.0);
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) sums[std::size_t(j)] += x(i, j) * y(i, j);
  return sums;
}

// y = scale x + y, columnwise
void add_scaled(const Columns& scale, MatrixView<const double> x, MatrixView<double> y) {
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) y(i, j) += scale[std::size_t(j)] * x(i, j);
}

bool positive(double value) { return value > 0 && std::isfinite(value); }

class Iteration {
 public:
  Iteration(const BlockOperator& a, const BlockOperator& preconditioner, MatrixView<const double> rhs,
            MatrixView<double> solution, double tolerance)
      : a_(a),
        preconditioner_(preconditioner),
        rhs_(rhs),
        x_(solution),
        tolerance_(tolerance),
        r_(rhs.rows, rhs.cols),
        z_(rhs.rows, rhs.cols),
        p_(rhs.rows, rhs.cols),
        ap_(rhs.rows, rhs.cols),
        rhs_norm_(column_dots(rhs, rhs)),
        active_(rhs_norm_.size()),
        rz_(rhs_norm_.size()) {
    for (double& norm : rhs_norm_) norm = std::sqrt(norm);
  }

  // r = b - A x, the columns above the tolerance become active. Returns the worst relative residual.
  double restart() {
    residual();
    const Columns relative = relative_residuals();
    for (std::size_t j = 0; j < active_.size(); ++j) active_[j] = relative[j] > tolerance_;
    std::fill_n(p_.data(), p_.rows() * p_.cols(), 0.0);
    std::fill(rz_.begin(), rz_.end(), 0.0);
    return worst(relative);
  }

  // One step of every active column; a column that converges or breaks down becomes inactive.
  double step() {
    next_direction();
    a_(p_, ap_);
    const Columns curvature = column_dots(p_, ap_);
    Columns along(active_.size(), 0.0), back(active_.size(), 0.0);
    for (std::size_t j = 0; j < active_.size(); ++j) {
      if (active_[j] && !positive(curvature[j])) active_[j] = false;
      if (active_[j]) along[j] = rz_[j] / curvature[j];
      back[j] = -along[j];
    }
    add_scaled(along, p_, x_);
    add_scaled(back, ap_, r_);
    const Columns relative = relative_residuals();
    for (std::size_t j = 0; j < active_.size(); ++j)
      active_[j] = active_[j] && relative[j] > tolerance_ && std::isfinite(relative[j]);
    return worst(relative);
  }

  bool active() const { return std::find(active_.begin(), active_.end(), true) != active_.end(); }

 private:
  // p = z + beta p with z = P^-1 r; inactive columns get p = 0.
  void next_direction() {
    if (preconditioner_)
      preconditioner_(r_, z_);
    else
      copy_rows(r_, z_);
    const Columns rz = column_dots(r_, z_);
    for (std::size_t j = 0; j < active_.size(); ++j) active_[j] = active_[j] && positive(rz[j]);
    for (Index i = 0; i < p_.rows(); ++i)
      for (Index j = 0; j < p_.cols(); ++j) {
        const auto c = static_cast<std::size_t>(j);
        const double beta = rz_[c] > 0 ? rz[c] / rz_[c] : 0.0;
        p_(i, j) = active_[c] ? z_(i, j) + beta * p_(i, j) : 0.0;
      }
    rz_ = rz;
  }

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
  Matrix<double> r_, z_, p_, ap_;
  Columns rhs_norm_;
  std::vector<bool> active_;
  Columns rz_;
};

}  // namespace

CgResult conjugate_gradients(const BlockOperator& a, const BlockOperator& preconditioner,
                             MatrixView<const double> rhs, MatrixView<double> solution,
                             const CgOptions& options, const CgCallback& on_iteration) {
  ensure(solution.rows == rhs.rows && solution.cols == rhs.cols, "conjugate_gradients: rhs (", rhs.rows,
         " x ", rhs.cols, "), solution (", solution.rows, " x ", solution.cols, ")");
  CgResult out;
  if (rhs.rows == 0 || rhs.cols == 0) return out;
  Iteration iteration(a, preconditioner, rhs, solution, options.tolerance);
  double before = std::numeric_limits<double>::infinity();
  while (true) {
    out.relative_residual = iteration.restart();
    if (out.relative_residual <= options.tolerance) return out;
    // A restart that does not halve the true residual has met the limit of the arithmetic.
    const bool stuck = !(out.relative_residual < before / 2);
    if (stuck || out.iterations >= options.max_iterations) break;
    before = out.relative_residual;
    while (iteration.active() && out.iterations < options.max_iterations) {
      const double relative = iteration.step();
      ++out.iterations;
      if (on_iteration) on_iteration(out.iterations, relative);
    }
  }
  out.status = CgStatus::stalled;
  return out;
}

}  // namespace headlens
