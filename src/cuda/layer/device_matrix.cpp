#include "cuda/layer/device_matrix.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "cuda/layer/vectors.hpp"
#include "cuda/staging.hpp"

namespace headlens::cuda {
namespace {

constexpr Index kShareRows = 64;
constexpr double kWorthThreads = 1 << 17;  // entries of a matrix

template <class T>
constexpr cudaDataType kType = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F;

template <class T>
cublasComputeType_t compute_type(Digits digits) {
  if (sizeof(T) == 8) return CUBLAS_COMPUTE_64F;
  return digits == Digits::tensor ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasOperation_t form_of(Trans trans) { return trans == Trans::no ? CUBLAS_OP_N : CUBLAS_OP_T; }

// work(first, count) for shares of the rows.
template <class Work>
void over_rows(Index rows, Index cols, int threads, Work&& work) {
  const bool small = static_cast<double>(rows * cols) < kWorthThreads;
  const Index shares = (rows + kShareRows - 1) / kShareRows;
  parallel_for(small ? 1 : threads, shares, [&](Index share, int) {
    work(share * kShareRows, std::min(kShareRows, rows - share * kShareRows));
  });
}

Index rows_of_piece(Index rows, Index cols, std::size_t item) {
  const auto row = static_cast<Index>(item) * std::max<Index>(1, cols);
  return std::clamp<Index>(static_cast<Index>(Staging::kBytes) / row, 1, std::max<Index>(1, rows));
}

}  // namespace

template <class T>
void upload(MatrixView<const double> from, int threads, DeviceMatrix<T>& to) {
  if (from.rows * from.cols == 0) return;
  const Index step = rows_of_piece(from.rows, from.cols, sizeof(T));
  for (Index first = 0; first < from.rows; first += step) {
    const Index rows = std::min(step, from.rows - first);
    const std::size_t bytes = static_cast<std::size_t>(rows * from.cols) * sizeof(T);
    auto* buffer = static_cast<T*>(staging().next(bytes));
    over_rows(rows, from.cols, threads, [&](Index at, Index count) {
      for (Index i = at; i < at + count; ++i)
        std::transform(from.row(first + i), from.row(first + i) + from.cols, buffer + i * from.cols,
                       [](double x) { return static_cast<T>(x); });
    });
    staging().send(to.data() + first * from.cols, bytes);
  }
}

template <class T>
DeviceMatrix<T> upload(MatrixView<const double> from, int threads) {
  DeviceMatrix<T> out(from.rows, from.cols);
  upload(from, threads, out);
  return out;
}

template <class T>
void download(const DeviceMatrix<T>& from, int threads, MatrixView<double> to) {
  if (from.size() == 0) return;
  const Index step = rows_of_piece(to.rows, to.cols, sizeof(T));
  for (Index first = 0; first < to.rows; first += step) {
    const Index rows = std::min(step, to.rows - first);
    const std::size_t bytes = static_cast<std::size_t>(rows * to.cols) * sizeof(T);
    const auto* buffer = static_cast<const T*>(staging().next(bytes));
    staging().fetch(from.data() + first * to.cols, bytes);
    staging().wait();
    over_rows(rows, to.cols, threads, [&](Index at, Index count) {
      for (Index i = at; i < at + count; ++i) std::copy_n(buffer + i * to.cols, to.cols, to.row(first + i));
    });
  }
}

template <class T>
Matrix<double> download(const DeviceMatrix<T>& from, int threads) {
  Matrix<double> out(from.rows(), from.cols());
  download(from, threads, out.view());
  return out;
}

// cuBLAS takes matrices by columns, so C^T = op(B)^T op(A)^T is what is asked for.
template <class T>
void multiply_each(Trans trans_a, Trans trans_b, MatrixView<const T> a, MatrixView<const T> b,
                   MatrixView<T> c, Index count, const Strides& strides, Digits digits) {
  const T one = 1, zero = 0;
  const Index inner = trans_a == Trans::no ? a.cols : a.rows;
  if (c.rows * c.cols * count == 0) return;
  check(cublasGemmStridedBatchedEx_64(device().blas, form_of(trans_b), form_of(trans_a), c.cols, c.rows,
                                      inner, &one, b.data, kType<T>, b.stride, strides.b, a.data, kType<T>,
                                      a.stride, strides.a, &zero, c.data, kType<T>, c.stride, strides.c,
                                      count, compute_type<T>(digits), CUBLAS_GEMM_DEFAULT));
}

template <class T>
void multiply(Trans trans_a, Trans trans_b, double alpha, MatrixView<const T> a, MatrixView<const T> b,
              double beta, MatrixView<T> c, Digits digits) {
  const T factor = static_cast<T>(alpha), kept = static_cast<T>(beta);
  const Index inner = trans_a == Trans::no ? a.cols : a.rows;
  if (c.rows * c.cols == 0) return;
  check(cublasGemmEx_64(device().blas, form_of(trans_b), form_of(trans_a), c.cols, c.rows, inner, &factor,
                        b.data, kType<T>, b.stride, a.data, kType<T>, a.stride, &kept, c.data, kType<T>,
                        c.stride, compute_type<T>(digits), CUBLAS_GEMM_DEFAULT));
}

#define HEADLENS_FOR(T)                                                                                     \
  template void upload(MatrixView<const double>, int, DeviceMatrix<T>&);                                    \
  template DeviceMatrix<T> upload(MatrixView<const double>, int);                                           \
  template void download(const DeviceMatrix<T>&, int, MatrixView<double>);                                  \
  template Matrix<double> download(const DeviceMatrix<T>&, int);                                            \
  template void multiply_each(Trans, Trans, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, Index, \
                              const Strides&, Digits);                                                      \
  template void multiply(Trans, Trans, double, MatrixView<const T>, MatrixView<const T>, double,            \
                         MatrixView<T>, Digits);
HEADLENS_FOR(float)
HEADLENS_FOR(double)

}  // namespace headlens::cuda
