// The AVX2 instance: 16 registers of 32 bytes, 12 of which hold sums.
#define HEADLENS_ISA avx2
#define HEADLENS_VECTOR_BYTES 32
#define HEADLENS_ROWS 6
#include "attention/one_head_kernel.hpp"
