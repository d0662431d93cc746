#include "cpu/layer/linear_model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cg_recurrence.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kTileRows = 64;

// factor * a, in another precision.
template <class To, class From>
Matrix<To> scaled(double factor, const Matrix<From>& a) {
  Matrix<To> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i)
    out.data()[i] = static_cast<To>(factor * double(a.data()[i]));
  return out;
}

template <class T>
double inner(const Matrix<T>& a, const Matrix<T>& b) {
  return inner_product(a.view(), b.view());
}

// (J^T P_perp J + mu) d = g from d = 0, with g divided by its norm: float has no room for small gradients.
template <class T>
class StepSystem final : public CgSystem {
 public:
  struct Stop {
    double tolerance;  // on the preconditioned norm of the residual, relative to that of the gradient
    const std::function<bool()>& expired;
  };
  StepSystem(const Tangent<T>& tangent, const Preconditioner& preconditioner, Matrix<T> gradient, double mu,
             const Stop& stop)
      : tangent_(tangent),
        preconditioner_(preconditioner),
        mu_(mu),
        expired_(stop.expired),
        direction_(Matrix<T>::zeros(gradient.rows(), gradient.cols())),
        search_(Matrix<T>::zeros(gradient.rows(), gradient.cols())),
        image_(gradient.rows(), gradient.cols()),
        z_(tangent.problem().rows(), tangent.problem().outputs()),
        residual_(std::move(gradient)),
        preconditioned_(preconditioner.apply(residual_)),
        target_(stop.tolerance * std::sqrt(std::max(inner(residual_, preconditioned_), 0.0))) {}

  Columns sizes() override { return {inner(residual_, preconditioned_)}; }
  bool goes_on(const Columns& sizes) override {
    return sizes[0] > 0 && (iterations_ == 0 || std::sqrt(sizes[0]) > target_) && !expired_();
  }
  void turn(const Columns& beta) override {
    for (Index i = 0; i < search_.rows() * search_.cols(); ++i)
      search_.data()[i] = preconditioned_.data()[i] + static_cast<T>(beta[0]) * search_.data()[i];
  }
  Columns curvatures() override {
    tangent_.normal_product(search_, z_, image_);
    add(static_cast<T>(mu_), search_, image_);
    return {inner(search_, image_)};
  }
  bool move(const Columns& alpha) override {
    if (!(alpha[0] > 0)) return false;
    add(static_cast<T>(alpha[0]), search_, direction_);
    add(static_cast<T>(-alpha[0]), image_, residual_);
    preconditioned_ = preconditioner_.apply(residual_);
    ++iterations_;
    return true;
  }

  const Matrix<T>& direction() const { return direction_; }
  const Matrix<T>& residual() const { return residual_; }
  int iterations() const { return iterations_; }

 private:
  const Tangent<T>& tangent_;
  const Preconditioner& preconditioner_;
  double mu_;
  const std::function<bool()>& expired_;
  Matrix<T> direction_, search_, image_, z_, residual_, preconditioned_;
  double target_;
  int iterations_ = 0;
};

// The model falls by <d, g + r>/2 + mu |d|^2 / 2 in all (with r the last residual); both halves are doubled
// here, since cost is |r|^2 and not half of it.
template <class T>
backend::Step solve_step(const Tangent<T>& tangent, const Matrix<double>& gradient, double mu,
                         double tolerance, int cap, const Preconditioner& preconditioner,
                         const std::function<bool()>& expired) {
  const double size = std::sqrt(squared_norm(gradient));
  if (!(size > 0)) return {Matrix<double>::zeros(gradient.rows(), gradient.cols()), 0, 0};
  StepSystem<T> system(tangent, preconditioner, scaled<T>(1 / size, gradient), mu, {tolerance, expired});
  iterate(system, cap);
  const Matrix<T>&direction = system.direction(), &residual = system.residual();
  backend::Step step{scaled<double>(size, direction), 0, system.iterations()};
  step.predicted = size * size *
                   (inner(direction, scaled<T>(1 / size, gradient)) + inner(direction, residual) +
                    mu * inner(direction, direction));
  return step;
}

}  // namespace

void Preconditioner::refresh(const VariableProjection& problem, const Point& point) {
  curvature_ = problem.curvature(point, 32 * problem.heads() + 64);
  threads_ = problem.threads();
}

void Preconditioner::shift(double mu) {
  factor_ = copy_of(curvature_);
  for (Index j = 0; j < factor_.rows(); ++j) factor_(j, j) += mu;
  usable_ = cholesky(factor_, threads_).ok();
  if (usable_) factor_single_ = scaled<float>(1, factor_);
}

template <class T>
Matrix<T> Preconditioner::apply(const Matrix<T>& a) const {
  Matrix<T> out = copy_of(a);
  if (!usable_) return out;
  MatrixView<const T> factor;
  if constexpr (std::is_same_v<T, float>)
    factor = factor_single_.view();
  else
    factor = factor_.view();
  // x (L L^T)^-1 = (x L^-T) L^-1
  const double flops = 2.0 * static_cast<double>(a.rows() * a.cols()) * static_cast<double>(a.cols());
  parallel_for(threads_for(flops, threads_), tile_count(a.rows(), kTileRows), [&](Index item, int) {
    const Tile tile = tile_at(a.rows(), kTileRows, item);
    const MatrixView<T> rows = out.view().block(tile.begin, 0, tile.size, a.cols());
    trsm(Side::right, Trans::yes, factor, rows);
    trsm(Side::right, Trans::no, factor, rows);
  });
  return out;
}

void ProjectedModel::move_to(const backend::LayerPoint& point) {
  point_ = &as_point(point);
  single_.moved = double_.moved = false;
}

void ProjectedModel::refresh_preconditioner(const backend::LayerPoint& point) {
  preconditioner_.refresh(problem_, as_point(point));
}

template <class T>
const Tangent<T>& ProjectedModel::at_point(Lazy<T>& lazy) {
  if (!lazy.tangent) lazy.tangent.emplace(problem_);
  if (!lazy.moved) lazy.tangent->move_to(*point_);
  lazy.moved = true;
  return *lazy.tangent;
}

backend::Step ProjectedModel::solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                                    Precision precision, const std::function<bool()>& expired) {
  if (precision == Precision::f64)
    return solve_step(at_point(double_), gradient, mu, tolerance, cap, preconditioner_, expired);
  return solve_step(at_point(single_), gradient, mu, tolerance, cap, preconditioner_, expired);
}

void ProjectedModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  if (image_.rows() == 0) image_ = Matrix<double>(problem_.rows(), problem_.outputs());
  in_double().normal_product(a, image_.view(), out);
}

Matrix<double> ProjectedModel::best_w(MatrixView<const double> z) {
  Matrix<double> w(point_->phi.cols(), z.cols);
  multiply(Trans::yes, Trans::no, 1.0, point_->phi.view(), z, 0.0, w.view(), problem_.threads());
  cholesky_solve(point_->factor, w, problem_.threads());
  return w;
}

}  // namespace headlens::cpu
