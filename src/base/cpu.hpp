// What this processor can do.
#pragma once

#include <string>

namespace headlens {

enum class SimdLevel { portable, avx2, avx512 };

SimdLevel simd_level();
std::string name(SimdLevel level);

// Whether there are tiles of 8-bit integers (AMX). The first call asks the system for leave to use them.
bool has_integer_tiles();

}  // namespace headlens
