// The instruction sets that this processor has.
#pragma once

#include <vector>

#include "base/cpu.hpp"

namespace headlens::cpu {

inline std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> out{SimdLevel::portable};
  if (simd_level() >= SimdLevel::avx2) out.push_back(SimdLevel::avx2);
  if (simd_level() >= SimdLevel::avx512) out.push_back(SimdLevel::avx512);
  return out;
}

}  // namespace headlens::cpu
