#include "cuda/design/symmetric.hpp"

#include <cmath>

#include "cuda/design/symmetric_kernels.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

template <class T>
constexpr cudaDataType kType = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F;

void half_solve_with(const float* a, Index size, float* b, Index q) {
  const float one = 1;
  check(cublasStrsm_64(device().blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_T,
                       CUBLAS_DIAG_NON_UNIT, size, q, &one, a, size, b, size));
}
void half_solve_with(const double* a, Index size, double* b, Index q) {
  const double one = 1;
  check(cublasDtrsm_64(device().blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_T,
                       CUBLAS_DIAG_NON_UNIT, size, q, &one, a, size, b, size));
}

int status_of(const DeviceArray<int>& info) { return info.to_host()[0]; }

}  // namespace

template <class T>
Symmetric<T>::Symmetric(DeviceArray<T> entries, Index size)
    : entries_(std::move(entries)), diagonal_(size), size_(size) {
  read_diagonal();
}

template <class T>
void Symmetric<T>::read_diagonal() {
  copy_diagonal(entries_.data(), size_, diagonal_.data());
  trace_ = 0;
  for (const T entry : diagonal_.to_host()) trace_ += static_cast<double>(entry);
}

template <class T>
Symmetric<T> Symmetric<T>::clone() const {
  ensure(!factored_, "a factored matrix is not copied");
  return Symmetric(entries_.clone(), size_);
}

template <class T>
Symmetric<T> Symmetric<T>::clone_factored() const {
  ensure(factored_, "a factor is copied that is not there");
  Symmetric out;
  out.entries_ = entries_.clone();
  out.diagonal_ = diagonal_.clone();
  out.size_ = size_, out.trace_ = trace_, out.shift_ = shift_, out.factored_ = true;
  return out;
}

template <class T>
double Symmetric<T>::frobenius() {
  mirror_to_upper(entries_.data(), size_, diagonal_.data(), T(0));
  DeviceArray<double> squares(size_);
  column_squares(entries_.data(), size_, size_, squares.data());
  double sum = 0;
  for (const double square : squares.to_host()) sum += square;
  return std::sqrt(sum);
}

template <class T>
void Symmetric<T>::add_constant(double constant) {
  cuda::add_constant(entries_.data(), size_, static_cast<T>(constant));
  read_diagonal();
}

template <class T>
bool Symmetric<T>::factorise(double shift) {
  const Device& d = device();
  factored_ = true;
  shift_ = shift;
  if (!std::isfinite(trace_)) return false;
  mirror_to_upper(entries_.data(), size_, diagonal_.data(), static_cast<T>(shift));
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXpotrf_bufferSize(d.solver, d.parameters, CUBLAS_FILL_MODE_UPPER, size_, kType<T>,
                                    entries_.data(), size_, kType<T>, &on_device, &on_host));
  DeviceArray<char> work(static_cast<Index>(on_device));
  std::vector<char> host_work(on_host);
  DeviceArray<int> info(1);
  check(cusolverDnXpotrf(d.solver, d.parameters, CUBLAS_FILL_MODE_UPPER, size_, kType<T>, entries_.data(),
                         size_, kType<T>, work.data(), on_device, host_work.data(), on_host, info.data()));
  return status_of(info) == 0;
}

template <class T>
void Symmetric<T>::solve(T* b, Index q) const {
  const Device& d = device();
  DeviceArray<int> info(1);
  check(cusolverDnXpotrs(d.solver, d.parameters, CUBLAS_FILL_MODE_UPPER, size_, q, kType<T>, entries_.data(),
                         size_, kType<T>, b, size_, info.data()));
}

template <class T>
void Symmetric<T>::half_solve(T* b, Index q) const {
  half_solve_with(entries_.data(), size_, b, q);
}

template <class T>
void Symmetric<T>::multiply(const double* in, Index q, double* out) const {
  if constexpr (sizeof(T) == sizeof(double)) {
    const double one = 1, zero = 0;
    check(cublasDsymm_64(device().blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, size_, q, &one,
                         entries_.data(), size_, in, size_, &zero, out, size_));
    if (factored_) add_diagonal_product(entries_.data(), size_, diagonal_.data(), shift_, in, q, out);
  } else {
    throw Bug("gram: a matrix of few digits was asked for exact products");
  }
}

template <class T>
DeviceArray<T> upload_columns(MatrixView<const double> a) {
  std::vector<T> columns(static_cast<std::size_t>(a.rows * a.cols));
  for (Index i = 0; i < a.rows; ++i)
    for (Index c = 0; c < a.cols; ++c)
      columns[static_cast<std::size_t>(c * a.rows + i)] = static_cast<T>(a(i, c));
  return DeviceArray<T>::from(columns);
}

template <class T>
void download_columns(const DeviceArray<T>& from, MatrixView<double> to) {
  const std::vector<T> columns = from.to_host();
  for (Index i = 0; i < to.rows; ++i)
    for (Index c = 0; c < to.cols; ++c)
      to(i, c) = static_cast<double>(columns[static_cast<std::size_t>(c * to.rows + i)]);
}

template class Symmetric<float>;
template class Symmetric<double>;
template DeviceArray<float> upload_columns(MatrixView<const double>);
template DeviceArray<double> upload_columns(MatrixView<const double>);
template void download_columns(const DeviceArray<float>&, MatrixView<double>);
template void download_columns(const DeviceArray<double>&, MatrixView<double>);

}  // namespace headlens::cuda
