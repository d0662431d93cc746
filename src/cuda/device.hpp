// The device: memory, one stream and the handles of libraries. Every call of CUDA is checked, and what fails
// becomes an Error with a remedy. The current device of CUDA is used (CUDA_VISIBLE_DEVICES chooses).
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::cuda {

void check(cudaError_t status);
void check(cublasStatus_t status);
void check(cusolverStatus_t status);

struct Device {
  int number = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;
  cusolverDnParams_t parameters = nullptr;

  void wait() const { check(cudaStreamSynchronize(stream)); }
};

// Of the calling thread, made at its first use and kept: libraries of CUDA must not be closed at exit.
Device& device();

std::uint64_t free_device_bytes();

void* allocate(std::size_t bytes);  // Error{memory} if there is too little
void release(void* memory);

// Uninitialised memory of the device, move-only.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(Index size)
      : data_(size > 0 ? static_cast<T*>(allocate(static_cast<std::size_t>(size) * sizeof(T))) : nullptr),
        size_(size) {}
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() {
    if (data_) release(data_);
  }

  T* data() const { return data_; }
  T* let_go() {  // whoever takes it frees it
    size_ = 0;
    return std::exchange(data_, nullptr);
  }
  Index size() const { return size_; }

  void upload(const T* from) { copy(data_, from, cudaMemcpyHostToDevice); }
  void download(T* to) const {
    copy(to, data_, cudaMemcpyDeviceToHost);
    device().wait();
  }
  void clear() {
    check(cudaMemsetAsync(data_, 0, static_cast<std::size_t>(size_) * sizeof(T), device().stream));
  }
  std::vector<T> to_host() const {
    std::vector<T> out(static_cast<std::size_t>(size_));
    download(out.data());
    return out;
  }
  static DeviceArray from(const std::vector<T>& values) {
    DeviceArray out(static_cast<Index>(values.size()));
    out.upload(values.data());
    device().wait();  // the values may go away
    return out;
  }
  DeviceArray clone() const {
    DeviceArray out(size_);
    copy(out.data_, data_, cudaMemcpyDeviceToDevice);
    return out;
  }

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(size_) * sizeof(T), kind, device().stream));
  }

  T* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace headlens::cuda
