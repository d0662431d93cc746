#include "cuda/arrays.hpp"

#include "cuda/array_kernels.hpp"
#include "cuda/staging.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

class Memory final : public DeviceMemory {
 public:
  explicit Memory(std::shared_ptr<void> address) : address_(std::move(address)), number_(device().number) {}

  int number() const override { return number_; }
  const void* address() const override { return address_.get(); }
  Index first_non_finite(DType type, Index count) const override {
    return type == DType::f32 ? cuda::first_non_finite(static_cast<const float*>(address()), count)
                              : cuda::first_non_finite(static_cast<const double*>(address()), count);
  }
  void fetch(const std::vector<Part>& parts, void* to) const override {
    const DeviceArray<std::uint32_t> words = gather_words(address(), parts);
    download_large(words.data(), static_cast<std::size_t>(words.size()) * sizeof(std::uint32_t), to, 1);
  }

 private:
  std::shared_ptr<void> address_;
  int number_;
};

bool lies_here(const void* address) {
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, address));
  return (found.type == cudaMemoryTypeDevice && found.device == device().number) ||
         found.type == cudaMemoryTypeManaged;
}

}  // namespace

std::shared_ptr<const DeviceMemory> borrow(std::shared_ptr<void> address, std::size_t bytes) {
  check(cudaStreamSynchronize(cudaStreamLegacy));
  const char* first = static_cast<const char*>(address.get());
  require(bytes == 0 || (lies_here(first) && lies_here(first + bytes - 1)), option("backend"),
          ": cuda: what was given as an array on cuda:", device().number,
          " is no memory of that device: give a tensor of PyTorch or CuPy, or an array in main memory");
  return std::make_shared<Memory>(std::move(address));
}

template <class T>
Array give(DeviceArray<T> values, std::vector<Index> shape) {
  device().wait();
  // Other streams may still read it, and other threads may free it, where another device is the current one:
  // so nothing of this thread's device() but its number.
  const auto free = [number = device().number](void* memory) {
    int before = number;
    cudaGetDevice(&before);
    cudaSetDevice(number);
    cudaDeviceSynchronize();
    cudaFree(memory);
    cudaSetDevice(before);
    cudaGetLastError();  // whoever frees cannot fail, and the next call must not report it
  };
  const std::shared_ptr<void> address(values.let_go(), free);
  return Array::on_device(dtype_of<T>(), std::move(shape), std::make_shared<Memory>(address));
}

template Array give(DeviceArray<float>, std::vector<Index>);
template Array give(DeviceArray<double>, std::vector<Index>);

}  // namespace headlens::cuda
