// What libheadlens_cuda.so shows (backend/plugin.hpp).
#include "backend/plugin.hpp"

#include <algorithm>
#include <string>

#include "base/memory.hpp"
#include "cuda/device.hpp"
#include "cuda/machine.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

std::string version_words(int version) { return join(version / 1000, ".", version % 1000 / 10); }

// Empty if there is a device to work with.
std::string what_is_missing() {
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no driver of NVIDIA is installed: install one, or ask for cpu";
  cudaRuntimeGetVersion(&runtime);
  if (driver / 1000 < runtime / 1000)
    return join("the driver is for CUDA ", version_words(driver), ", this build needs ",
                version_words(runtime), ": install a newer driver, or ask for cpu");
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    return join("the driver shows no device (", cudaGetErrorString(status),
                "): look at nvidia-smi and CUDA_VISIBLE_DEVICES, or ask for cpu");
  int major = 0, number = 0;
  if (cudaGetDevice(&number) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number) != cudaSuccess)
    return "the device does not answer: look at nvidia-smi, or ask for cpu";
  if (major < 8)
    return join("the device has compute capability ", major, ", expected 8 or more: ask for cpu");
  return "";
}

std::string what_is_there() {
  int number = 0, runtime = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&number));
  check(cudaGetDeviceProperties(&properties, number));
  cudaRuntimeGetVersion(&runtime);
  return join(properties.name, ", ", format_bytes(properties.totalGlobalMem), ", CUDA ",
              version_words(runtime));
}

}  // namespace
}  // namespace headlens::cuda

extern "C" __attribute__((visibility("default"))) const char* headlens_plugin_build() {
  static const std::string name = headlens::backend::build_name();
  return name.c_str();
}

extern "C" __attribute__((visibility("default"))) void* headlens_plugin_open(char* words, std::size_t size) {
  using namespace headlens::cuda;
  std::string text;
  void* out = nullptr;
  try {
    text = what_is_missing();
    if (text.empty()) {
      text = what_is_there();
      out = static_cast<headlens::backend::Backend*>(&machine());
    }
  } catch (const std::exception& error) {
    text = error.what();
  }
  words[text.copy(words, size - 1)] = '\0';
  return out;
}
