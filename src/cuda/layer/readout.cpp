#include "cuda/layer/readout.hpp"

#include <cmath>

#include "cuda/design/symmetric_kernels.hpp"
#include "cuda/layer/cholesky.hpp"
#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

constexpr double kJitter = 1e-14;
constexpr double kRefineBelow = 1e-6;
constexpr int kRefinements = 2;

MatrixView<const double> read(const DeviceMatrix<double>& a) { return a.view(); }

void copy(const DeviceMatrix<double>& from, DeviceMatrix<double>& to) {
  check(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(from.size()) * sizeof(double),
                        cudaMemcpyDeviceToDevice, device().stream));
}

void update_residual(const DeviceMatrix<double>& y, FactorPoint& point) {
  copy(y, point.residual);
  multiply(Trans::no, Trans::no, -1, read(point.phi), read(point.o), 1, point.residual.view());
  point.seen->hide(point.residual);
}

// w = (Phi^T S_c Phi + lambda)^-1 w, output by output.
void solve_normal(const FactorPoint& point, DeviceMatrix<double>& w) {
  solve_lower(point.factor, w);
  if (!point.seen->all()) point.seen->solve(point.cores, w);
  solve_upper(point.factor, w);
}

// The factor of Phi^T Phi + shift, and where labels are missing the matrices beside it.
bool factorise_normal(double shift, FactorPoint& point) {
  if (!factorise(point.factor, shift)) return false;
  return point.seen->all() || point.seen->invert_cores(orthonormal_features(point), point.cores);
}

double squares_of(const DeviceMatrix<double>& a) { return inner_product(a.data(), a.data(), a.size()); }

}  // namespace

void allocate_readout(FactorPoint& point, Index rows, Index features, Index outputs, const SeenLabels& seen) {
  point.seen = &seen;
  point.phi = DeviceMatrix<double>(rows, features);
  point.residual = DeviceMatrix<double>(rows, outputs);
  point.gram = DeviceMatrix<double>(features, features);
  point.factor = DeviceMatrix<double>(features, features);
  point.product = DeviceMatrix<double>(features, outputs);
  point.o = DeviceMatrix<double>(features, outputs);
  point.w = Matrix<double>(features, outputs);
}

void gather_readout(const DeviceMatrix<double>& y, FactorPoint& point) {
  multiply(Trans::yes, Trans::no, 1, read(point.phi), read(point.phi), 0, point.gram.view());
  multiply(Trans::yes, Trans::no, 1, read(point.phi), read(y), 0, point.product.view());
}

void solve_readout(const DeviceMatrix<double>& y, double y_squares, double ridge, int threads,
                   FactorPoint& point) {
  const Index features = point.phi.cols();
  copy(point.gram, point.factor);
  DeviceArray<double> diagonal(features);
  copy_diagonal(point.gram.data(), features, diagonal.data());
  double trace = 0;
  for (const double entry : diagonal.to_host()) trace += entry / static_cast<double>(features);
  const double lambda = ridge * trace;
  point.finite = std::isfinite(trace) && trace > 0 && factorise_normal(lambda + kJitter * trace, point);
  if (!point.finite) return;
  copy(point.product, point.o);
  solve_normal(point, point.o);
  update_residual(y, point);
  point.squares = squares_of(point.residual);
  // Steps of refinement against the true residual, once digits are at stake: the normal equations square the
  // condition number. The processor takes one; here the second costs little.
  for (int pass = 0; pass < kRefinements && point.squares < kRefineBelow * y_squares; ++pass) {
    DeviceMatrix<double> gradient(features, point.o.cols());
    multiply(Trans::yes, Trans::no, 1, read(point.phi), read(point.residual), 0, gradient.view());
    add_scaled(-lambda, point.o.data(), point.o.size(), gradient.data());
    solve_normal(point, gradient);
    add_scaled(1, gradient.data(), point.o.size(), point.o.data());
    update_residual(y, point);
    point.squares = squares_of(point.residual);
  }
  point.cost = point.squares + lambda * squares_of(point.o);
  point.finite = std::isfinite(point.cost);
  download(point.o, threads, point.w.view());
}

DeviceMatrix<double> orthonormal_features(const FactorPoint& point) {
  DeviceMatrix<double> q(point.phi.rows(), point.phi.cols());
  const double one = 1;
  copy(point.phi, q);
  check(cublasDtrsm_64(device().blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                       CUBLAS_DIAG_NON_UNIT, q.cols(), q.rows(), &one, point.factor.data(), q.cols(),
                       q.data(), q.cols()));
  return q;
}

DeviceMatrix<double> best_readout(const FactorPoint& point, DeviceMatrix<double> z) {
  DeviceMatrix<double> out(point.phi.cols(), z.cols());
  point.seen->hide(z);
  multiply(Trans::yes, Trans::no, 1, read(point.phi), read(z), 0, out.view());
  solve_normal(point, out);
  return out;
}

}  // namespace headlens::cuda
