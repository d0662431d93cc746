// Which kernels OpenBLAS chose for this processor. The way out of a bad choice is in headlens/blas_core.hpp.
#pragma once

#include <string>
#include <string_view>

#include "base/cpu.hpp"
#include "headlens/blas_core.hpp"

namespace headlens {

struct BlasInfo {
  std::string library;      // version and build of OpenBLAS
  std::string core;         // the kernels in use
  std::string wanted_core;  // those this processor deserves; "" where we do not know
  bool core_fits = true;
};

BlasInfo blas_info();

// The decision alone: are the kernels named `core` as fast as a processor of that level can run? One that
// halves the instructions of AVX-512 (Zen 4) runs those of AVX2 as fast; others take up to twice as long.
bool core_fits(std::string_view core, SimdLevel level, bool halves);

std::string wanted_core(SimdLevel level);

}  // namespace headlens
