// The AVX-512 instance: vectors of 64 bytes.
#define HEADLENS_ISA avx512
#define HEADLENS_VECTOR_BYTES 64
#include "cpu/kernels/moment_rows_kernel.hpp"
