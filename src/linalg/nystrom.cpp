#include "linalg/nystrom.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/orthonormalise.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kRowTile = 256;
// The shift that makes the sketch's Cholesky safe may grow by this factor, this often.
constexpr double kShiftGrowth = 10.0;
constexpr int kShiftTries = 4;
// Eigenvalues below this many shifts are rounding.
constexpr double kNoiseShifts = 10.0;

// Orthonormal columns spanning a uniformly random subspace; row i comes from stream i.
Matrix<double> random_frame(Index n, Index rank, std::uint64_t seed, int threads) {
  Matrix<double> out(n, rank);
  parallel_for(threads_for(50.0 * double(n) * double(rank), threads), tile_count(n, kRowTile),
               [&](Index item, int) {
                 const Tile tile = tile_at(n, kRowTile, item);
                 for (Index i = tile.begin; i < tile.begin + tile.size; ++i) {
                   Stream stream(seed, "nystrom", static_cast<std::uint64_t>(i));
                   for (Index j = 0; j < rank; ++j) out(i, j) = stream.normal();
                 }
               });
  const CholeskyResult result = orthonormalise_columns(out, threads);
  ensure(result.ok(), "nystrom: ", n, " x ", rank, " Gaussian columns are dependent at ", result.pivot);
  return out;
}

double frobenius(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

void add_scaled(double scale, MatrixView<const double> x, MatrixView<double> y) {
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < x.cols; ++j) y(i, j) += scale * x(i, j);
}

// Turns Y = A Omega into B with B B^T = Y_nu (Omega^T Y_nu)^-1 Y_nu^T, Y_nu = Y + nu Omega. Grows nu as
// needed; fails if A is too far from semidefinite.
CholeskyResult take_root(MatrixView<const double> omega, MatrixView<double> y, double& nu, int threads) {
  CholeskyResult result;
  double added = 0;
  for (int attempt = 0; attempt < kShiftTries; ++attempt, nu *= kShiftGrowth) {
    add_scaled(nu - added, omega, y);
    added = nu;
    Matrix<double> core(omega.cols, omega.cols);
    multiply(Trans::yes, Trans::no, 1.0, omega, y, 0.0, core, threads);
    for (Index i = 0; i < core.rows(); ++i)
      for (Index j = 0; j < i; ++j) core(i, j) = 0.5 * (core(i, j) + core(j, i));
    result = cholesky(core, threads);
    if (!result.ok()) continue;
    solve_rows(core, y, threads);
    return result;
  }
  return result;
}

// The left singular vectors of B and its squared singular values less nu, the largest first.
// B^T B gives the values to c eps |B|^2, which is below nu; the vectors it gives are orthogonal only to
// eps |B|^2 / value, and the orthonormalisation, in the order of the values, repairs that.
NystromResult decompose(MatrixView<const double> root, double nu, int threads) {
  auto gram = Matrix<double>::zeros(root.cols, root.cols);
  add_inner(root, gram, threads);
  const SymmetricEigen eigen = symmetric_eigen(gram);
  if (!eigen.ok()) return {NystromStatus::not_finite, {}};
  std::vector<double> values;
  Matrix<double> scaled(root.cols, root.cols);
  for (Index k = root.cols - 1; k >= 0; --k) {
    const double square = eigen.values[std::size_t(k)];
    if (square - nu <= kNoiseShifts * nu) break;
    const auto row = static_cast<Index>(values.size());
    for (Index j = 0; j < root.cols; ++j) scaled(row, j) = eigen.vectors(k, j) / std::sqrt(square);
    values.push_back(square - nu);
  }
  const auto kept = static_cast<Index>(values.size());
  Matrix<double> vectors(root.rows, kept);
  multiply(Trans::no, Trans::yes, 1.0, root, scaled.view().block(0, 0, kept, root.cols), 0.0, vectors,
           threads);
  if (!orthonormalise_columns(vectors, threads).ok()) return {NystromStatus::not_finite, {}};
  const double tail = kept < root.cols ? 0.0 : values.back();
  return {NystromStatus::ok, NystromPreconditioner(std::move(values), std::move(vectors), tail)};
}

}  // namespace

NystromPreconditioner::NystromPreconditioner(std::vector<double> values, Matrix<double> vectors, double tail)
    : values_(std::move(values)), vectors_(std::move(vectors)), tail_(tail) {
  ensure(vectors_.cols() == Index(values_.size()), "nystrom: ", values_.size(), " values, ", vectors_.cols(),
         " vectors");
}

// x + U c with c_i = ((tail + mu) / (lambda_i + mu) - 1) (U^T x)_i, written without the cancellation.
void NystromPreconditioner::apply(double mu, MatrixView<const double> in, MatrixView<double> out,
                                  int threads) const {
  ensure(in.rows == out.rows && in.cols == out.cols && (rank() == 0 || in.rows == vectors_.rows()),
         "nystrom: in (", in.rows, " x ", in.cols, "), out (", out.rows, " x ", out.cols, "), vectors of ",
         vectors_.rows());
  copy_rows(in, out);
  if (rank() == 0) return;
  Matrix<double> along(rank(), in.cols);
  multiply(Trans::yes, Trans::no, 1.0, vectors_, in, 0.0, along, threads);
  // Without a shift, a tail of 0 would make P^-1 singular.
  const double tail = mu > 0 ? tail_ : values_.back();
  for (Index i = 0; i < rank(); ++i) {
    const double value = values_[std::size_t(i)];
    const double factor = (tail - value) / (value + mu);
    for (Index j = 0; j < in.cols; ++j) along(i, j) *= factor;
  }
  multiply(Trans::no, Trans::no, 1.0, vectors_, along, 1.0, out, threads);
}

NystromResult build_nystrom(const BlockOperator& a, Index n, Index rank, std::uint64_t seed, int threads) {
  ensure(n >= 0 && rank >= 0, "nystrom: size ", n, ", rank ", rank);
  rank = std::min(rank, n);
  if (rank == 0) return {};
  const Matrix<double> omega = random_frame(n, rank, seed, threads);
  Matrix<double> y(n, rank);
  a(omega, y);
  const double size = frobenius(y);
  if (!std::isfinite(size)) return {NystromStatus::not_finite, {}};
  if (size == 0) return {};
  double nu = std::sqrt(double(n)) * std::numeric_limits<double>::epsilon() * size;
  if (!take_root(omega, y, nu, threads).ok()) return {NystromStatus::not_positive_semidefinite, {}};
  return decompose(y, nu, threads);
}

}  // namespace headlens
