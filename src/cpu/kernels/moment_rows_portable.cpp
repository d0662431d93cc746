// The portable instance: vectors of 16 bytes.
#define HEADLENS_ISA portable
#define HEADLENS_VECTOR_BYTES 16
#include "cpu/kernels/moment_rows_kernel.hpp"
