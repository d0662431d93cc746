// Matrices by rows on the device, the way from and to the host, and products by cuBLAS.
#pragma once

#include "cuda/device.hpp"
#include "linalg/blas.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cuda {

template <class T>
class DeviceMatrix {
 public:
  DeviceMatrix() = default;
  DeviceMatrix(Index rows, Index cols) : array_(rows * cols), rows_(rows), cols_(cols) {}  // uninitialised

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index size() const { return rows_ * cols_; }
  T* data() const { return array_.data(); }
  MatrixView<T> view() { return {array_.data(), rows_, cols_}; }
  MatrixView<const T> view() const { return {array_.data(), rows_, cols_}; }
  void clear() { array_.clear(); }

 private:
  DeviceArray<T> array_;
  Index rows_ = 0, cols_ = 0;
};

// Views whose data lie on the device are MatrixView as well: no function takes both kinds.

// To (rows, cols) of the device, rounded to T; large matrices are copied by `threads` threads.
template <class T>
DeviceMatrix<T> upload(MatrixView<const double> from, int threads);
template <class T>
void upload(MatrixView<const double> from, int threads, DeviceMatrix<T>& to);
template <class T>
void download(const DeviceMatrix<T>& from, int threads, MatrixView<double> to);
template <class T>
Matrix<double> download(const DeviceMatrix<T>& from, int threads);

// tensor: float is rounded to 11 bits (TF32) on the way into the tensor cores.
enum class Digits { all, tensor };

// c = alpha op(a) op(b) + beta c
template <class T>
void multiply(Trans trans_a, Trans trans_b, double alpha, MatrixView<const T> a, MatrixView<const T> b,
              double beta, MatrixView<T> c, Digits digits = Digits::all);

// The same for `count` matrices that lie at equal distances.
struct Strides {
  Index a = 0, b = 0, c = 0;
};
template <class T>
void multiply_each(Trans trans_a, Trans trans_b, MatrixView<const T> a, MatrixView<const T> b,
                   MatrixView<T> c, Index count, const Strides& strides, Digits digits = Digits::all);

}  // namespace headlens::cuda
