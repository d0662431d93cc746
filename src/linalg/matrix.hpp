// Row-major matrix views and owners. Views in, values out.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "headlens/array.hpp"

namespace headlens {

template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;  // items from one row to the next

  MatrixView() = default;
  MatrixView(T* d, Index r, Index c) : MatrixView(d, r, c, c) {}
  MatrixView(T* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}

  T* row(Index i) const { return data + i * stride; }
  T& operator()(Index i, Index j) const { return data[i * stride + j]; }
  MatrixView block(Index i, Index j, Index r, Index c) const { return {data + i * stride + j, r, c, stride}; }
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride}; }
};

// Uninitialised, 64-byte aligned, move-only.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size) : size_(size) {
    const auto bytes = (static_cast<std::size_t>(size) * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes ? bytes : 64)));
    if (!data_) throw std::bad_alloc();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  Index size() const { return size_; }
  T& operator[](Index i) { return data_.get()[i]; }
  const T& operator[](Index i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
  Index size_ = 0;
};

template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(Index rows, Index cols) : storage_(rows * cols), rows_(rows), cols_(cols) {}  // uninitialised
  static Matrix zeros(Index rows, Index cols) {
    Matrix out(rows, cols);
    for (Index i = 0; i < rows * cols; ++i) out.storage_[i] = T{};
    return out;
  }

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  T* data() { return storage_.data(); }
  const T* data() const { return storage_.data(); }
  T& operator()(Index i, Index j) { return storage_[i * cols_ + j]; }
  const T& operator()(Index i, Index j) const { return storage_[i * cols_ + j]; }
  MatrixView<T> view() { return {storage_.data(), rows_, cols_}; }
  MatrixView<const T> view() const { return {storage_.data(), rows_, cols_}; }
  operator MatrixView<T>() { return view(); }
  operator MatrixView<const T>() const { return view(); }

 private:
  Buffer<T> storage_;
  Index rows_ = 0;
  Index cols_ = 0;
};

// Copies values between two matrices of the same shape.
inline void copy_rows(MatrixView<const double> from, MatrixView<double> to) {
  for (Index i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}
inline void copy_rows(MatrixView<const float> from, MatrixView<float> to) {
  for (Index i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}

}  // namespace headlens
