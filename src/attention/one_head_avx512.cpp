// The AVX-512 instance: 32 registers of 64 bytes, 16 of which hold sums.
#define HEADLENS_ISA avx512
#define HEADLENS_VECTOR_BYTES 64
#define HEADLENS_ROWS 8
#include "attention/one_head_kernel.hpp"
