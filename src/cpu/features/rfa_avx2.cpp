// The AVX2 instance: 16 registers of 32 bytes.
#define HEADLENS_ISA avx2
#define HEADLENS_VECTOR_BYTES 32
#define HEADLENS_ROWS 12
#include "cpu/features/rfa_kernel.hpp"
