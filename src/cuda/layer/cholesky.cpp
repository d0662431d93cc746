#include "cuda/layer/cholesky.hpp"

#include "cuda/design/symmetric_kernels.hpp"

namespace headlens::cuda {
namespace {

// By columns b is b^T (q, size), and b^T = b^T L^-T or b^T L^-1.
void solve_half(const DeviceMatrix<double>& l, cublasOperation_t form, DeviceMatrix<double>& b) {
  const double one = 1;
  check(cublasDtrsm_64(device().blas, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, form, CUBLAS_DIAG_NON_UNIT,
                       b.cols(), b.rows(), &one, l.data(), l.rows(), b.data(), b.cols()));
}

}  // namespace

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

void solve_lower(const DeviceMatrix<double>& l, DeviceMatrix<double>& b) { solve_half(l, CUBLAS_OP_T, b); }

void solve_upper(const DeviceMatrix<double>& l, DeviceMatrix<double>& b) { solve_half(l, CUBLAS_OP_N, b); }

void solve_factored(const DeviceMatrix<double>& l, DeviceMatrix<double>& b) {
  solve_lower(l, b);
  solve_upper(l, b);
}

}  // namespace headlens::cuda
