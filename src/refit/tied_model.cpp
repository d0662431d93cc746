#include "refit/tied_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "linalg/cg_recurrence.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

// Queries, keys and values of the parameters: where each begins, and the end.
std::array<Index, 4> parts_of(const TiedShape& shape) { return {0, shape.k(0), shape.v(0), shape.columns()}; }

// (J^T P_perp J + mu) x = g, from x = 0.
class StepSystem final : public CgSystem {
 public:
  StepSystem(TiedModel& model, const Matrix<double>& gradient, double mu, double tolerance,
             const std::function<bool()>& expired)
      : model_(model),
        mu_(mu),
        expired_(expired),
        x_(Matrix<double>::zeros(gradient.rows(), gradient.cols())),
        search_(Matrix<double>::zeros(gradient.rows(), gradient.cols())),
        image_(gradient.rows(), gradient.cols()),
        residual_(headlens::copy_of(gradient)),
        preconditioned_(model.precondition(residual_)),
        target_(tolerance * std::sqrt(std::max(inner_product(residual_, preconditioned_), 0.0))) {}

  Columns sizes() override { return {inner_product(residual_, preconditioned_)}; }
  bool goes_on(const Columns& sizes) override {
    return sizes[0] > 0 && (iterations_ == 0 || std::sqrt(sizes[0]) > target_) && !expired_();
  }
  void turn(const Columns& beta) override {
    for (Index i = 0; i < search_.rows() * search_.cols(); ++i)
      search_.data()[i] = preconditioned_.data()[i] + beta[0] * search_.data()[i];
  }
  Columns curvatures() override {
    model_.normal_product(search_, image_);
    add(mu_, search_, image_);
    return {inner_product(search_, image_)};
  }
  bool move(const Columns& alpha) override {
    if (!(alpha[0] > 0)) return false;
    add(alpha[0], search_, x_);
    add(-alpha[0], image_, residual_);
    preconditioned_ = model_.precondition(residual_);
    ++iterations_;
    return true;
  }

  // The model falls by <x, g + residual> + mu |x|^2: cost is |r|^2 and not half of it.
  backend::Step step(const Matrix<double>& gradient) {
    const double predicted =
        inner_product(x_, gradient) + inner_product(x_, residual_) + mu_ * squared_norm(x_);
    return {std::move(x_), predicted, iterations_};
  }

 private:
  TiedModel& model_;
  double mu_;
  const std::function<bool()>& expired_;
  Matrix<double> x_, search_, image_, residual_, preconditioned_;
  double target_;
  int iterations_ = 0;
};

}  // namespace

TiedModel::TiedModel(const TiedProblem& problem)
    : problem_(problem),
      features_(problem.rows(), problem.shape().features()),
      image_(problem.rows(), problem.outputs()) {}

void TiedModel::move_to(const backend::LayerPoint& point) { point_ = &static_cast<const TiedPoint&>(point); }

void TiedModel::refresh_preconditioner(const backend::LayerPoint&) {
  const std::array<Index, 4> parts = parts_of(problem_.shape());
  const Index rows = problem_.shape().rows, columns = problem_.shape().columns();
  for (std::size_t part = 0; part < 3; ++part) {
    Matrix<double> probe = Matrix<double>::zeros(rows, columns);
    Stream stream(0, "refit-curvature", part);
    for (Index i = 0; i < rows; ++i)
      for (Index j = parts[part]; j < parts[part + 1]; ++j) probe(i, j) = stream.below(2) == 0 ? -1 : 1;
    derivative(probe, image_);
    project(image_);
    curvature_[part] = squared_norm(image_) / squared_norm(probe);
  }
}

Matrix<double> TiedModel::precondition(const Matrix<double>& a) const {
  const std::array<Index, 4> parts = parts_of(problem_.shape());
  Matrix<double> out(a.rows(), a.cols());
  for (std::size_t part = 0; part < 3; ++part) {
    const double curvature = curvature_[part] + mu_, factor = curvature > 0 ? 1 / curvature : 1;
    for (Index i = 0; i < a.rows(); ++i)
      for (Index j = parts[part]; j < parts[part + 1]; ++j) out(i, j) = factor * a(i, j);
  }
  return out;
}

backend::Step TiedModel::solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                               Precision, const std::function<bool()>& expired) {
  StepSystem system(*this, gradient, mu, tolerance, expired);
  iterate(system, cap);
  return system.step(gradient);
}

void TiedModel::derivative(MatrixView<const double> dp, MatrixView<double> z) {
  problem_.map().derivative(point_->z, point_->p, dp, features_);
  multiply(Trans::no, Trans::no, 1.0, std::as_const(features_).view(), point_->w.view(), 0.0, z,
           problem_.threads());
}

void TiedModel::project(MatrixView<double> z) {
  const Matrix<double> w = best_w(z);
  multiply(Trans::no, Trans::no, -1.0, point_->phi.view(), w.view(), 1.0, z, problem_.threads());
}

void TiedModel::adjoint(MatrixView<const double> z, MatrixView<double> dp) {
  multiply(Trans::no, Trans::yes, 1.0, z, point_->w.view(), 0.0, features_.view(), problem_.threads());
  problem_.map().adjoint(point_->z, point_->p, std::as_const(features_).view(), dp);
}

void TiedModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  derivative(a, image_);
  project(image_);
  adjoint(std::as_const(image_).view(), out);
}

Matrix<double> TiedModel::best_w(MatrixView<const double> z) {
  Matrix<double> w(problem_.shape().features(), z.cols);
  multiply(Trans::yes, Trans::no, 1.0, point_->phi.view(), z, 0.0, w.view(), problem_.threads());
  cholesky_solve(point_->factor, w, problem_.threads());
  return w;
}

}  // namespace headlens::refitting
