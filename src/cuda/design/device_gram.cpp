#include "cuda/design/device_gram.hpp"

#include "cuda/design/shift_path.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

template <class T>
class DeviceFactor final : public backend::Factor {
 public:
  explicit DeviceFactor(Symmetric<T> matrix) : matrix_(std::move(matrix)) {}
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    solve_factored(matrix_, in, out);
  }

 private:
  Symmetric<T> matrix_;
};

// Eigenvalues, in increasing order; `a` holds the eigenvectors as columns afterwards. False if they cannot be
// had.
bool eigenvectors(double* a, Index size, DeviceArray<double>& values) {
  const Device& d = device();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXsyevd_bufferSize(d.solver, d.parameters, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                                    size, CUDA_R_64F, a, size, CUDA_R_64F, values.data(), CUDA_R_64F,
                                    &on_device, &on_host));
  DeviceArray<char> work(static_cast<Index>(on_device));
  std::vector<char> host_work(on_host);
  DeviceArray<int> info(1);
  check(cusolverDnXsyevd(d.solver, d.parameters, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, size,
                         CUDA_R_64F, a, size, CUDA_R_64F, values.data(), CUDA_R_64F, work.data(), on_device,
                         host_work.data(), on_host, info.data()));
  return info.to_host()[0] == 0;
}

// out (size, q) = a b or a^T b, all by columns.
void multiply_by(const double* a, Index size, cublasOperation_t form, const double* b, Index q, double* out) {
  const double one = 1, zero = 0;
  check(cublasDgemm_64(device().blas, form, CUBLAS_OP_N, size, q, size, &one, a, size, b, size, &zero, out,
                       size));
}

}  // namespace

template <class T>
void DeviceGram<T>::multiply(MatrixView<const double> in, MatrixView<double> out) const {
  const DeviceArray<double> from = upload_columns<double>(in);
  DeviceArray<double> to(from.size());
  matrix_.multiply(from.data(), in.cols, to.data());
  download_columns(to, out);
}

template <class T>
std::unique_ptr<backend::Factor> DeviceGram<T>::factor(double shift) {
  Symmetric<T> matrix = std::move(matrix_);
  if (!matrix.factorise(shift)) return nullptr;
  return std::make_unique<DeviceFactor<T>>(std::move(matrix));
}

template <class T>
std::optional<Matrix<double>> DeviceGram<T>::minimum_norm() {
  if constexpr (sizeof(T) == sizeof(double)) {
    const Index size = matrix_.size();
    const MatrixView<const double> rhs = right_side();
    DeviceArray<double> values(size), from = upload_columns<double>(rhs), inner(from.size());
    if (!eigenvectors(matrix_.entries(), size, values)) return std::nullopt;
    multiply_by(matrix_.entries(), size, CUBLAS_OP_T, from.data(), rhs.cols, inner.data());
    Matrix<double> out(size, rhs.cols);
    download_columns(inner, out);
    const std::vector<double> sigma = values.to_host();
    const double cutoff = static_cast<double>(size) * equations_->epsilon * sigma.back();
    for (Index k = 0; k < size; ++k)
      for (Index c = 0; c < rhs.cols; ++c)
        out(k, c) =
            sigma[static_cast<std::size_t>(k)] > cutoff ? out(k, c) / sigma[static_cast<std::size_t>(k)] : 0;
    inner = upload_columns<double>(out);
    multiply_by(matrix_.entries(), size, CUBLAS_OP_N, inner.data(), rhs.cols, from.data());
    download_columns(from, out);
    return out;
  } else {
    throw Bug("gram: a matrix of few digits was asked for its eigenvectors");
  }
}

template <class T>
std::unique_ptr<backend::ShiftPath> DeviceGram<T>::shift_path() {
  return make_shift_path(std::move(matrix_), equations_, context_);
}

template class DeviceGram<float>;
template class DeviceGram<double>;

}  // namespace headlens::cuda
