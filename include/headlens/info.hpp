// What this build is and what it runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headlens/execution.hpp"

namespace headlens {

std::string version();   // "0.1.0"
std::string commit();    // of the sources, "unknown" outside a repository
std::string compiler();  // "GCC 12.2.0, Release"

// A back end, and why it cannot be used if it cannot.
struct BackendInfo {
  std::string name;  // "cpu", "cuda"
  bool available = false;
  std::string reason;  // what it runs on, or what is missing and how to get it
};

struct SystemInfo {
  std::string version, commit, compiler;
  std::string blas_library;  // as OpenBLAS describes itself
  std::string blas_core;     // the kernels it chose
  bool blas_core_fits = true;
  std::string simd;  // the feature map that will run: avx512, avx2 or portable
  int threads = 1;
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t max_memory_bytes = 0;
  std::vector<BackendInfo> backends;
};
SystemInfo system_info(const Execution& execution);

}  // namespace headlens
