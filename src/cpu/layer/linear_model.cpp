#include "cpu/layer/linear_model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/layer/step_solver.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kTileRows = 64;

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
    return solve_step<double>(at_point(double_), gradient, mu, tolerance, cap, preconditioner_, expired);
  return solve_step<float>(at_point(single_), gradient, mu, tolerance, cap, preconditioner_, expired);
}

void ProjectedModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  if (image_.rows() == 0) image_ = Matrix<double>(problem_.rows(), problem_.outputs());
  in_double().normal_product(a, image_.view(), out);
}

Matrix<double> ProjectedModel::best_w(MatrixView<const double> z) {
  return best_readout(*point_, z, problem_.threads());
}

}  // namespace headlens::cpu
