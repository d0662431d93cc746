// Whether the BLAS library runs the kernels this processor deserves.
//
// OpenBLAS 0.3.21 does not know processors younger than itself and silently falls back to kernels of 2004,
// five times slower. OPENBLAS_CORETYPE repairs that, but only if it is set before the library loads: a
// program has to start itself again.
#pragma once

#include <string>

#include "headlens/execution.hpp"

namespace headlens {

// What OPENBLAS_CORETYPE must be when the program starts; "" if nothing is to be done: the kernels fit, or
// the user has set the variable.
std::string blas_core_repair();

// If blas_core_repair() asks for it, replaces this process by itself with the variable set; otherwise, or if
// that fails, returns. Call it first in main(). It happens once: HEADLENS_BLAS_REPAIRED=1 marks the second
// start.
void repair_blas_core(char** argv);

// OpenBLAS maps 128 MiB for every thread that calls it, and where the limit on the address space (ulimit -v)
// forbids that, it tries for ever. Where there is such a limit:
//
// as repair_blas_core(), starts again without the threads of OpenBLAS's own, which headlens does not use;
void drop_blas_threads(char** argv);
// how many of the threads wanted, and how much memory beside them, the limit allows. Error if not even one.
Execution within_address_space(const Execution& execution);

}  // namespace headlens
