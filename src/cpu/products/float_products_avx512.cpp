// The AVX-512 instance.
#define HEADLENS_ISA avx512
#define HEADLENS_VECTOR_BYTES 64
#define HEADLENS_ROWS 8
#include "cpu/products/float_products_kernel.hpp"
