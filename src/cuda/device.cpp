#include "cuda/device.hpp"

#include <array>
#include <limits>
#include <string>

#include "base/memory.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

[[noreturn]] void fail(const std::string& reason) {
  throw Error(ErrorCode::environment,
              message(option("backend"), ": cuda: the device failed (", reason,
                      "): look at nvidia-smi and start the command again, or ask for cpu"));
}

[[noreturn]] void refuse_memory(std::size_t bytes) {
  throw Error(ErrorCode::memory,
              message(option("backend"), ": cuda: the device has no ", format_bytes(bytes), " left, ",
                      format_bytes(free_device_bytes()), " are free: end what else runs there, lower ",
                      option("max-memory"), ", or ask for cpu"));
}

// Memory that is given back stays with the process, so that the next fit does not wait for the driver.
void keep_freed_memory() {
  int number = 0;
  cudaMemPool_t pool = nullptr;
  check(cudaGetDevice(&number));
  check(cudaDeviceGetDefaultMemPool(&pool, number));
  auto all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

Device open_device() {
  Device out;
  check(cudaGetDevice(&out.number));
  keep_freed_memory();
  check(cudaStreamCreateWithFlags(&out.stream, cudaStreamNonBlocking));
  check(cublasCreate(&out.blas));
  check(cublasSetStream(out.blas, out.stream));
  check(cublasSetAtomicsMode(out.blas, CUBLAS_ATOMICS_NOT_ALLOWED));  // same bytes on repeat
  check(cusolverDnCreate(&out.solver));
  check(cusolverDnSetStream(out.solver, out.stream));
  check(cusolverDnCreateParams(&out.parameters));
  return out;
}

}  // namespace

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failed launch is not reported twice
  fail(cudaGetErrorString(status));
}
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(cublasGetStatusString(status));
}
void check(cusolverStatus_t status) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(join("cuSOLVER status ", static_cast<int>(status)));
}

Device& device() {
  thread_local Device* const mine = new Device(open_device());
  return *mine;
}

std::uint64_t free_device_bytes() {
  int number = 0;
  cudaMemPool_t pool = nullptr;
  check(cudaGetDevice(&number));
  check(cudaDeviceGetDefaultMemPool(&pool, number));
  std::uint64_t reserved = 0, used = 0;  // what was given back is kept, and free for the next
  check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free + (reserved - used);
}

void* allocate(std::size_t bytes) {
  void* out = nullptr;
  const cudaError_t status = cudaMallocAsync(&out, bytes, device().stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    refuse_memory(bytes);
  }
  check(status);
  return out;
}

void release(void* memory) { cudaFreeAsync(memory, device().stream); }

}  // namespace headlens::cuda
