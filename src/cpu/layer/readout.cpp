#include "cpu/layer/readout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/design/sum_lower.hpp"
#include "cpu/layer/sum_over.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr double kJitter = 1e-14;
constexpr double kRefineBelow = 1e-6;
constexpr Index kTileRows = 256;

bool is_partial(const ReadoutPoint& point) { return point.seen && !point.seen->all(); }

void update_residual(MatrixView<const double> y, int threads, ReadoutPoint& point) {
  copy_rows(y, point.residual.view());
  multiply(Trans::no, Trans::no, -1.0, point.phi.view(), point.w.view(), 1.0, point.residual.view(), threads);
  if (is_partial(point)) point.seen->hide(point.residual.view());
}

// |Y - Phi W|^2
double squares_left(const ReadoutPoint& point) { return point.ranks.sum(squared_norm(point.residual)); }

// -Q_c^T Q_c, lower, for the rows of Q that a group misses.
void gather_core(MatrixView<const double> q, const std::vector<Index>& missing, Matrix<double>& core) {
  const Index features = q.cols, count = static_cast<Index>(missing.size());
  core = Matrix<double>::zeros(features, features);
  Matrix<double> rows(std::min(count, kTileRows), features);
  for (Index item = 0; item < tile_count(count, kTileRows); ++item) {
    const Tile tile = tile_at(count, kTileRows, item);
    for (Index i = 0; i < tile.size; ++i)
      std::copy_n(q.row(missing[static_cast<std::size_t>(tile.begin + i)]), features, rows.view().row(i));
    syrk(Trans::yes, -1.0, std::as_const(rows).view().block(0, 0, tile.size, features), 1.0, core.view());
  }
}

// M = I - Q_c^T Q_c, factored.
bool factor_core(Matrix<double>& core) {
  for (Index j = 0; j < core.rows(); ++j) core(j, j) += 1;
  return cholesky(core, 1).ok();
}

bool factor_cores(int threads, ReadoutPoint& point) {
  const std::vector<SeenLabels::Group>& groups = point.seen->groups();
  Matrix<double> q(point.phi.rows(), point.phi.cols());
  orthonormal_features(point, threads, q.view());
  point.cores.resize(groups.size());
  std::vector<char> ok(groups.size());
  const auto over_groups = [&](const std::function<void(std::size_t)>& act) {
    parallel_for(threads, static_cast<Index>(groups.size()),
                 [&](Index g, int) { act(static_cast<std::size_t>(g)); });
  };
  over_groups(
      [&](std::size_t g) { gather_core(std::as_const(q).view(), groups[g].missing, point.cores[g]); });
  for (Matrix<double>& core : point.cores) sum_lower(point.ranks, core.view());
  over_groups([&](std::size_t g) { ok[g] = factor_core(point.cores[g]); });
  return std::all_of(ok.begin(), ok.end(), [](char each) { return each != 0; });
}

// c = M_c^-1 c, output by output.
template <class T>
void solve_cores(const ReadoutPoint& point, int threads, MatrixView<T> c) {
  const std::vector<SeenLabels::Group>& groups = point.seen->groups();
  parallel_for(threads, static_cast<Index>(groups.size()), [&](Index g, int) {
    const std::vector<Index>& outputs = groups[static_cast<std::size_t>(g)].outputs;
    Matrix<double> own(c.rows, static_cast<Index>(outputs.size()));
    for (Index i = 0; i < own.rows(); ++i)
      for (Index j = 0; j < own.cols(); ++j)
        own(i, j) = static_cast<double>(c(i, outputs[static_cast<std::size_t>(j)]));
    cholesky_solve(point.cores[static_cast<std::size_t>(g)], own, 1);
    for (Index i = 0; i < own.rows(); ++i)
      for (Index j = 0; j < own.cols(); ++j)
        c(i, outputs[static_cast<std::size_t>(j)]) = static_cast<T>(own(i, j));
  });
}

// w = (Phi^T S_c Phi + lambda)^-1 w, output by output.
void solve_normal(const ReadoutPoint& point, int threads, Matrix<double>& w) {
  if (!is_partial(point)) return cholesky_solve(point.factor, w, threads);
  trsm(Side::left, Trans::no, point.factor.view(), w.view());
  solve_cores(point, threads, w.view());
  trsm(Side::left, Trans::yes, point.factor.view(), w.view());
}

}  // namespace

ReadoutPoint::ReadoutPoint(Index rows, Index features, Index outputs, comm::Communicator& all_ranks,
                           const SeenLabels* seen_labels)
    : phi(rows, features),
      residual(rows, outputs),
      gram(features, features),
      product(features, outputs),
      factor(features, features),
      ranks(all_ranks),
      seen(seen_labels) {
  w = Matrix<double>(features, outputs);
}

void gather_readout(MatrixView<const double> y, int threads, ReadoutPoint& point) {
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  std::fill_n(point.gram.data(), phi.cols * phi.cols, 0.0);
  add_inner(phi, point.gram, threads);
  multiply(Trans::yes, Trans::no, 1.0, phi, y, 0.0, point.product.view(), threads);
  sum_lower(point.ranks, point.gram.view());
  sum_over(point.ranks, point.product.view());
}

void solve_readout(MatrixView<const double> y, double y_squares, double ridge, int threads,
                   ReadoutPoint& point) {
  const MatrixView<const double> phi = std::as_const(point.phi).view();
  const Index features = phi.cols, outputs = y.cols;
  std::copy_n(point.gram.data(), features * features, point.factor.data());
  double trace = 0;
  for (Index j = 0; j < features; ++j) trace += point.gram(j, j) / static_cast<double>(features);
  const double lambda = ridge * trace;
  for (Index j = 0; j < features; ++j) point.factor(j, j) += lambda + kJitter * trace;
  point.finite = std::isfinite(trace) && trace > 0 && cholesky(point.factor, threads).ok();
  if (point.finite && is_partial(point)) point.finite = factor_cores(threads, point);
  if (!point.finite) return;
  copy_rows(std::as_const(point.product).view(), point.w.view());
  solve_normal(point, threads, point.w);
  update_residual(y, threads, point);
  // One step of refinement against the true residual, once digits are at stake: the normal equations square
  // the condition number.
  point.squares = squares_left(point);
  if (point.squares < kRefineBelow * y_squares) {
    Matrix<double> gradient(features, outputs);
    multiply(Trans::yes, Trans::no, 1.0, phi, std::as_const(point.residual).view(), 0.0, gradient.view(),
             threads);
    sum_over(point.ranks, gradient.view());
    for (Index i = 0; i < features * outputs; ++i) gradient.data()[i] -= lambda * point.w.data()[i];
    solve_normal(point, threads, gradient);
    for (Index i = 0; i < features * outputs; ++i) point.w.data()[i] += gradient.data()[i];
    update_residual(y, threads, point);
    point.squares = squares_left(point);
  }
  point.cost = point.squares + lambda * squared_norm(point.w);
  point.finite = std::isfinite(point.cost);
}

template <class T>
void orthonormal_features(const ReadoutPoint& point, int threads, MatrixView<T> q) {
  // The inverse of the factor makes Q a plain product, several times faster than solving row by row.
  const Index features = q.cols;
  Matrix<double> inverse = Matrix<double>::zeros(features, features);
  for (Index j = 0; j < features; ++j) inverse(j, j) = 1;
  trsm(Side::left, Trans::no, point.factor.view(), inverse.view());
  const double flops = 2.0 * static_cast<double>(q.rows) * static_cast<double>(features * features);
  parallel_for(threads_for(flops, threads), tile_count(q.rows, kTileRows), [&](Index item, int) {
    const Tile tile = tile_at(q.rows, kTileRows, item);
    Matrix<double> rows(tile.size, features);
    gemm(Trans::no, Trans::yes, 1.0, point.phi.view().block(tile.begin, 0, tile.size, features),
         std::as_const(inverse).view(), 0.0, rows.view());
    for (Index i = 0; i < tile.size; ++i)
      for (Index j = 0; j < features; ++j) q(tile.begin + i, j) = static_cast<T>(rows(i, j));
  });
}

template <class T>
void project_out(comm::Communicator& ranks, MatrixView<const T> q, int threads, MatrixView<T> z) {
  Matrix<T> c(q.cols, z.cols);
  multiply(Trans::yes, Trans::no, T(1), q, MatrixView<const T>(z), T(0), c.view(), threads);
  sum_over(ranks, c.view());
  multiply(Trans::no, Trans::no, T(-1), q, std::as_const(c).view(), T(1), z, threads);
}

template <class T>
void project_seen(const ReadoutPoint& point, MatrixView<const T> q, int threads, MatrixView<T> z) {
  if (!is_partial(point)) return project_out(point.ranks, q, threads, z);
  Matrix<T> c(q.cols, z.cols);
  point.seen->hide(z);
  multiply(Trans::yes, Trans::no, T(1), q, MatrixView<const T>(z), T(0), c.view(), threads);
  sum_over(point.ranks, c.view());
  solve_cores(point, threads, c.view());
  multiply(Trans::no, Trans::no, T(-1), q, std::as_const(c).view(), T(1), z, threads);
  point.seen->hide(z);
}

Matrix<double> best_readout(const ReadoutPoint& point, MatrixView<const double> z, int threads) {
  Matrix<double> w(point.phi.cols(), z.cols), counted;
  if (is_partial(point)) {
    counted = Matrix<double>(z.rows, z.cols);
    copy_rows(z, counted.view());
    point.seen->hide(counted.view());
    z = std::as_const(counted).view();
  }
  multiply(Trans::yes, Trans::no, 1.0, point.phi.view(), z, 0.0, w.view(), threads);
  sum_over(point.ranks, w.view());
  solve_normal(point, threads, w);
  return w;
}

template void orthonormal_features<float>(const ReadoutPoint&, int, MatrixView<float>);
template void orthonormal_features<double>(const ReadoutPoint&, int, MatrixView<double>);
template void project_out<float>(comm::Communicator&, MatrixView<const float>, int, MatrixView<float>);
template void project_out<double>(comm::Communicator&, MatrixView<const double>, int, MatrixView<double>);
template void project_seen<float>(const ReadoutPoint&, MatrixView<const float>, int, MatrixView<float>);
template void project_seen<double>(const ReadoutPoint&, MatrixView<const double>, int, MatrixView<double>);

}  // namespace headlens::cpu
