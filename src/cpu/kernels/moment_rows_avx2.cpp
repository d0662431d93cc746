// The AVX2 instance: vectors of 32 bytes.
#define HEADLENS_ISA avx2
#define HEADLENS_VECTOR_BYTES 32
#include "cpu/kernels/moment_rows_kernel.hpp"
