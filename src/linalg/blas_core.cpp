#include "linalg/blas_core.hpp"

#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
constexpr const char* kThreadsVariable = "OPENBLAS_NUM_THREADS";
// OpenBLAS's buffer of 128 MiB, a stack, and what malloc maps for a thread.
constexpr std::uint64_t kBytesPerThread = 160ULL << 20;
constexpr const char* kRepairedVariable = "HEADLENS_BLAS_REPAIRED";

constexpr std::array<std::string_view, 3> kAvx512Cores = {"SkylakeX", "Cooperlake", "SapphireRapids"};
constexpr std::array<std::string_view, 2> kAvx2Cores = {"Haswell", "Zen"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Zen 4 executes an AVX-512 instruction as two halves; Zen 5 does not.
bool halves_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

bool core_fits(std::string_view core, SimdLevel level, bool halves) {
  switch (level) {
    case SimdLevel::portable:
      return true;
    case SimdLevel::avx2:
      return contains(kAvx2Cores, core) || contains(kAvx512Cores, core);
    case SimdLevel::avx512:
      return contains(kAvx512Cores, core) || (halves && contains(kAvx2Cores, core));
  }
  return true;
}

std::string wanted_core(SimdLevel level) {
  switch (level) {
    case SimdLevel::portable:
      return "";
    case SimdLevel::avx2:
      return "Haswell";
    case SimdLevel::avx512:
      return "SkylakeX";
  }
  return "";
}

BlasInfo blas_info() {
  BlasInfo info;
  info.library = openblas_get_config();
  info.core = openblas_get_corename();
  info.wanted_core = wanted_core(simd_level());
  info.core_fits = core_fits(info.core, simd_level(), halves_avx512());
  return info;
}

std::string blas_core_repair() {
  const BlasInfo info = blas_info();
  return info.core_fits || is_set(kCoreVariable) ? "" : info.wanted_core;
}

void drop_blas_threads(char** argv) {
  const char* threads = std::getenv(kThreadsVariable);
  if (address_space_left() == UINT64_MAX || (threads != nullptr && std::string_view(threads) == "1")) return;
  if (setenv(kThreadsVariable, "1", 1) == 0) execv("/proc/self/exe", argv);
}

Execution within_address_space(const Execution& execution) {
  const std::uint64_t left = address_space_left();
  if (left == UINT64_MAX) return execution;
  const std::uint64_t most = left / 2 / kBytesPerThread;  // half for the threads, half for the work
  if (most == 0)
    throw Error(ErrorCode::memory,
                join("the limit on the address space (ulimit -v) leaves ", format_bytes(left), ", expected ",
                     format_bytes(2 * kBytesPerThread), " or more: raise it by ",
                     (2 * kBytesPerThread - left) / 1024 + 1, " KiB or lift it (ulimit -v unlimited)"));
  Execution out = execution;
  out.threads =
      static_cast<int>(std::min<std::uint64_t>(most, static_cast<std::uint64_t>(thread_count(execution))));
  const std::uint64_t beside = left - static_cast<std::uint64_t>(out.threads) * kBytesPerThread;
  if (out.max_memory_bytes == 0) out.max_memory_bytes = std::min(free_memory_bytes(), beside) / 10 * 8;
  out.max_memory_bytes = std::min(out.max_memory_bytes, beside);
  return out;
}

void repair_blas_core(char** argv) {
  const std::string core = blas_core_repair();
  if (core.empty() || is_set(kRepairedVariable)) return;
  if (setenv(kCoreVariable, core.c_str(), 1) != 0 || setenv(kRepairedVariable, "1", 1) != 0) return;
  execv("/proc/self/exe", argv);
  unsetenv(kCoreVariable);
  unsetenv(kRepairedVariable);
}

}  // namespace headlens
