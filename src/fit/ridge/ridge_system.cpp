#include "fit/ridge/ridge_system.hpp"

namespace headlens::training {

RidgeSystem::RidgeSystem(backend::Design& design, MatrixView<const double> y, backend::Side side,
                         std::vector<double> weights)
    : design_(design), y_(y), weights_(std::move(weights)), dual_(side == backend::Side::dual) {}

void RidgeSystem::apply(double shift, MatrixView<const double> in, MatrixView<double> out) const {
  const Matrix<double> product =
      dual_ ? weighted(design_.outer_product(weighted_copy(in), "conjugate gradients"))
            : design_.inner_product(in, "conjugate gradients", weights_);
  for (Index i = 0; i < in.rows; ++i)
    for (Index c = 0; c < in.cols; ++c) out(i, c) = product(i, c) + shift * in(i, c);
}

Matrix<double> RidgeSystem::right_side() const {
  Matrix<double> y = weighted_copy(y_);
  return dual_ ? std::move(y) : design_.adjoint(y, "right side");
}

Matrix<double> RidgeSystem::fitted(MatrixView<const double> unknowns) const {
  return dual_ ? design_.outer_product(weighted_copy(unknowns), "validate")
               : design_.forward(unknowns, "validate");
}

Matrix<double> RidgeSystem::values(Matrix<double> unknowns) const {
  return dual_ ? design_.adjoint(unknowns, "values") : std::move(unknowns);
}

CgResult RidgeSystem::solve(double shift, const BlockOperator& preconditioner, const CgOptions& options,
                            MatrixView<double> unknowns, const Execution& execution) const {
  return conjugate_gradients(
      [&](MatrixView<const double> in, MatrixView<double> out) { apply(shift, in, out); }, preconditioner,
      right_side(), unknowns, options,
      [&](int, double residual) {
        execution.check_cancelled();
        execution.report_error("conjugate gradients", residual, options.tolerance);
      });
}

Matrix<double> RidgeSystem::weighted(Matrix<double> a) const {
  for (Index i = 0; !weights_.empty() && i < a.rows(); ++i)
    for (Index c = 0; c < a.cols(); ++c) a(i, c) *= weights_[static_cast<std::size_t>(i)];
  return a;
}

Matrix<double> RidgeSystem::weighted_copy(MatrixView<const double> a) const {
  Matrix<double> out(a.rows, a.cols);
  copy_rows(a, out);
  return weighted(std::move(out));
}

}  // namespace headlens::training
