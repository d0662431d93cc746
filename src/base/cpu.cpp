#include "base/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace headlens {

SimdLevel simd_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return SimdLevel::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SimdLevel::avx2;
#endif
  return SimdLevel::portable;
}

bool has_integer_tiles() {
#if defined(__x86_64__)
  static const bool granted = [] {
    constexpr unsigned kTiles = 1U << 24, kInt8 = 1U << 25;  // cpuid 7, edx
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return simd_level() == SimdLevel::avx512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (d & kTiles) != 0 && (d & kInt8) != 0 &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}

std::string name(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512:
      return "avx512";
    case SimdLevel::avx2:
      return "avx2";
    case SimdLevel::portable:
      break;
  }
  return "portable";
}

}  // namespace headlens
