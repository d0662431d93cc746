#include "linalg/regularised.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kMirrorTile = 64;
constexpr int kRefinements = 2;

void mirror_to_upper(MatrixView<double> a, int threads) {
  const Index count = tile_count(a.rows, kMirrorTile);
  parallel_for(threads_for(double(a.rows) * double(a.rows), threads), lower_tile_count(count),
               [&](Index item, int) {
                 const TilePair pair = lower_tile(item);
                 const Tile rows = tile_at(a.rows, kMirrorTile, pair.row),
                            cols = tile_at(a.rows, kMirrorTile, pair.col);
                 for (Index i = rows.begin; i < rows.begin + rows.size; ++i)
                   for (Index j = cols.begin; j < std::min(i, cols.begin + cols.size); ++j) a(j, i) = a(i, j);
               });
}

std::vector<double> column_norms(MatrixView<const double> a) {
  std::vector<double> norms(static_cast<std::size_t>(a.cols), 0.0);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) norms[std::size_t(j)] += a(i, j) * a(i, j);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

double worst_ratio(const std::vector<double>& residual, const std::vector<double>& rhs) {
  double worst = 0;
  for (std::size_t j = 0; j < rhs.size(); ++j) {
    if (rhs[j] == 0) continue;
    const double ratio = residual[j] / rhs[j];
    worst = std::isfinite(ratio) ? std::max(worst, ratio) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

}  // namespace

RegularisedFactor::RegularisedFactor(MatrixView<double> gram, double shift, int threads)
    : a_(gram), threads_(threads) {
  mirror_to_upper(a_, threads_);
  for (Index i = 0; i < a_.rows; ++i) diagonal_.push_back(a_(i, i) += shift);
  result_ = cholesky(a_, threads_);
}

// Trades the factor's diagonal, which sits in the matrix, for the original one.
void RegularisedFactor::swap_diagonal() {
  for (Index i = 0; i < a_.rows; ++i) std::swap(a_(i, i), diagonal_[std::size_t(i)]);
}

// out = b - A x
void RegularisedFactor::residual(MatrixView<const double> b, MatrixView<const double> x,
                                 MatrixView<double> out) {
  swap_diagonal();
  multiply_symmetric(Triangle::upper, a_, x, out, threads_);
  swap_diagonal();
  for (Index i = 0; i < b.rows; ++i)
    for (Index j = 0; j < b.cols; ++j) out(i, j) = b(i, j) - out(i, j);
}

double RegularisedFactor::solve(MatrixView<const double> rhs, MatrixView<double> solution) {
  const Index n = a_.rows, q = rhs.cols;
  Matrix<double> better(n, q), left(n, q);
  copy_rows(rhs, solution);
  cholesky_solve(a_, solution, threads_);
  residual(rhs, solution, left);
  const std::vector<double> size = column_norms(rhs);
  double worst = worst_ratio(column_norms(left), size);
  for (int step = 0; step < kRefinements && worst > 0; ++step) {
    cholesky_solve(a_, left, threads_);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < q; ++j) better(i, j) = solution(i, j) + left(i, j);
    residual(rhs, better, left);
    const double refined = worst_ratio(column_norms(left), size);
    if (refined < worst) copy_rows(better, solution);
    const bool halved = refined < worst / 2;
    worst = std::min(worst, refined);
    if (!halved) break;
  }
  return worst;
}

RegularisedSolve solve_regularised(MatrixView<double> gram, double shift, MatrixView<const double> rhs,
                                   MatrixView<double> solution, int threads) {
  const Index n = gram.rows, q = rhs.cols;
  ensure(gram.cols == n && rhs.rows == n && solution.rows == n && solution.cols == q,
         "solve_regularised: gram (", n, " x ", gram.cols, "), rhs (", rhs.rows, " x ", q, "), solution (",
         solution.rows, " x ", solution.cols, ")");
  RegularisedFactor factor(gram, shift, threads);
  if (!factor.result().ok()) return {factor.result().status, factor.result().pivot, 0};
  return {CholeskyStatus::ok, 0, factor.solve(rhs, solution)};
}

}  // namespace headlens
