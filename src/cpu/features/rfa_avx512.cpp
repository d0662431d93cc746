// The AVX-512 instance: 32 registers of 64 bytes.
#define HEADLENS_ISA avx512
#define HEADLENS_VECTOR_BYTES 64
#define HEADLENS_ROWS 16
#include "cpu/features/rfa_kernel.hpp"
