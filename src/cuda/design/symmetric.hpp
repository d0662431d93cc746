// A symmetric matrix on the device and the Cholesky factor of matrix + shift, in one array: the lower
// triangle keeps the matrix, the upper one holds the factor, and the diagonal of the matrix is kept beside
// it. So a matrix can be factored at one shift after the other.
#pragma once

#include "cuda/device.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cuda {

template <class T>
class Symmetric {
 public:
  Symmetric() = default;
  // entries (size, size) by columns, the lower triangle valid.
  Symmetric(DeviceArray<T> entries, Index size);
  Symmetric clone() const;
  Symmetric clone_factored() const;

  Index size() const { return size_; }
  double trace() const { return trace_; }
  double shift() const { return shift_; }  // of the factor
  double frobenius();                      // at least the largest eigenvalue; before a factor
  T* entries() { return entries_.data(); }
  void add_constant(double constant);  // to every entry

  bool factorise(double shift);          // false if matrix + shift is not positive definite in T
  void solve(T* b, Index q) const;       // b (size, q) by columns = (matrix + shift)^-1 b
  void half_solve(T* b, Index q) const;  // b = R^-T b, with R^T R = matrix + shift
  // out = (matrix + shift of the factor, or 0 before one) in, (size, q) by columns. In double only.
  void multiply(const double* in, Index q, double* out) const;

 private:
  void read_diagonal();

  DeviceArray<T> entries_, diagonal_;
  Index size_ = 0;
  double trace_ = 0, shift_ = 0;
  bool factored_ = false;
};

// Host matrices (size, q) by rows, as columns on the device, and back.
template <class T>
DeviceArray<T> upload_columns(MatrixView<const double> a);
template <class T>
void download_columns(const DeviceArray<T>& from, MatrixView<double> to);

}  // namespace headlens::cuda
