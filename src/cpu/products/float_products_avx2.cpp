// The AVX2 instance.
#define HEADLENS_ISA avx2
#define HEADLENS_VECTOR_BYTES 32
#define HEADLENS_ROWS 2
#include "cpu/products/float_products_kernel.hpp"
