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
  set(problem.curvature(point, 32 * problem.heads() + 64), problem.threads());
}

void Preconditioner::set(Matrix<double> curvature, int threads) {
  curvature_ = std::move(curvature);
  threads_ = threads;
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

template Matrix<float> Preconditioner::apply(const Matrix<float>&) const;
template Matrix<double> Preconditioner::apply(const Matrix<double>&) const;

}  // namespace headlens::cpu
