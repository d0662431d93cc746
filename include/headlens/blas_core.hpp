// Whether the BLAS library runs the kernels this processor deserves.
//
// OpenBLAS 0.3.21 does not know processors younger than itself and silently falls back to kernels of 2004,
// five times slower. OPENBLAS_CORETYPE repairs that, but only if it is set before the library loads: a
// program has to start itself again.
#pragma once

#include <string>

namespace headlens {

// What OPENBLAS_CORETYPE must be when the program starts; "" if nothing is to be done: the kernels fit, or
// the user has set the variable.
std::string blas_core_repair();

// If blas_core_repair() asks for it, replaces this process by itself with the variable set; otherwise, or if
// that fails, returns. Call it first in main(). It happens once: HEADLENS_BLAS_REPAIRED=1 marks the second
// start.
void repair_blas_core(char** argv);

}  // namespace headlens
