#include "cuda/layer/eigen.hpp"

namespace headlens::cuda {
namespace {

void set_identity(Index size, float* a, float* values) {
  std::vector<float> entries(static_cast<std::size_t>(size * size)), ones(static_cast<std::size_t>(size), 1);
  for (Index i = 0; i < size; ++i) entries[static_cast<std::size_t>(i * size + i)] = 1;
  const auto send = [](const std::vector<float>& from, float* to) {
    check(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice,
                          device().stream));
  };
  send(entries, a);
  send(ones, values);
  device().wait();
}

}  // namespace

void symmetric_eigen(Index count, Index size, float* a, float* values) {
  if (count * size == 0) return;
  const Device& d = device();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXsyevBatched_bufferSize(d.solver, d.parameters, CUSOLVER_EIG_MODE_VECTOR,
                                          CUBLAS_FILL_MODE_LOWER, size, CUDA_R_32F, a, size, CUDA_R_32F,
                                          values, CUDA_R_32F, &on_device, &on_host, count));
  DeviceArray<char> work(static_cast<Index>(on_device));
  std::vector<char> host_work(on_host);
  DeviceArray<int> info(count);
  check(cusolverDnXsyevBatched(d.solver, d.parameters, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, size,
                               CUDA_R_32F, a, size, CUDA_R_32F, values, CUDA_R_32F, work.data(), on_device,
                               host_work.data(), on_host, info.data(), count));
  const std::vector<int> states = info.to_host();
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i] != 0) {
      const auto matrix = static_cast<Index>(i);
      set_identity(size, a + matrix * size * size, values + matrix * size);
    }
}

}  // namespace headlens::cuda
