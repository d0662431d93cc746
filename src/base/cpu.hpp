// What this processor can do.
#pragma once

#include <string>

namespace headlens {

enum class SimdLevel { portable, avx2, avx512 };

SimdLevel simd_level();
std::string name(SimdLevel level);

}  // namespace headlens
