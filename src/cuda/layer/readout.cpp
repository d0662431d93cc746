#include "cuda/layer/readout.hpp"

#include <cmath>

#include "cuda/design/symmetric_kernels.hpp"
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

// The factor of a (size, size) + shift, in its lower triangle by columns.
bool factorise(DeviceMatrix<double>& a, double shift) {
  const Device& d = device();
  const Index size = a.rows();
  DeviceArray<double> diagonal(size);
  copy_diagonal(a.data(), size, diagonal.data());
  mirror_to_upper(a.data(), size, diagonal.data(), shift);  // sets the diagonal
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXpotrf_bufferSize(d.solver, d.parameters, CUBLAS_FILL_MODE_LOWER, size, CUDA_R_64F,
                                    a.data(), size, CUDA_R_64F, &on_device, &on_host));
  DeviceArray<char> work(static_cast<Index>(on_device));
  std::vector<char> host_work(on_host);
  DeviceArray<int> info(1);
  check(cusolverDnXpotrf(d.solver, d.parameters, CUBLAS_FILL_MODE_LOWER, size, CUDA_R_64F, a.data(), size,
                         CUDA_R_64F, work.data(), on_device, host_work.data(), on_host, info.data()));
  return info.to_host()[0] == 0;
}

// b (size, q) by rows = (L L^T)^-1 b: by columns b^T = b^T L^-T L^-1.
void solve_factored(const DeviceMatrix<double>& l, DeviceMatrix<double>& b) {
  const double one = 1;
  for (const cublasOperation_t form : {CUBLAS_OP_T, CUBLAS_OP_N})
    check(cublasDtrsm_64(device().blas, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, form, CUBLAS_DIAG_NON_UNIT,
                         b.cols(), b.rows(), &one, l.data(), l.rows(), b.data(), b.cols()));
}

void update_residual(const DeviceMatrix<double>& y, FactorPoint& point) {
  copy(y, point.residual);
  multiply(Trans::no, Trans::no, -1, read(point.phi), read(point.o), 1, point.residual.view());
}

double squares_of(const DeviceMatrix<double>& a) { return inner_product(a.data(), a.data(), a.size()); }

}  // namespace

void allocate_readout(FactorPoint& point, Index rows, Index features, Index outputs) {
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
  point.finite = std::isfinite(trace) && trace > 0 && factorise(point.factor, lambda + kJitter * trace);
  if (!point.finite) return;
  copy(point.product, point.o);
  solve_factored(point.factor, point.o);
  update_residual(y, point);
  point.squares = squares_of(point.residual);
  // Steps of refinement against the true residual, once digits are at stake: the normal equations square the
  // condition number. The processor takes one; here the second costs little.
  for (int pass = 0; pass < kRefinements && point.squares < kRefineBelow * y_squares; ++pass) {
    DeviceMatrix<double> gradient(features, point.o.cols());
    multiply(Trans::yes, Trans::no, 1, read(point.phi), read(point.residual), 0, gradient.view());
    add_scaled(-lambda, point.o.data(), point.o.size(), gradient.data());
    solve_factored(point.factor, gradient);
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

DeviceMatrix<double> best_readout(const FactorPoint& point, MatrixView<const double> z) {
  DeviceMatrix<double> out(point.phi.cols(), z.cols);
  multiply(Trans::yes, Trans::no, 1, read(point.phi), z, 0, out.view());
  solve_factored(point.factor, out);
  return out;
}

}  // namespace headlens::cuda
