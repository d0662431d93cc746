// The portable instance.
#define HEADLENS_ISA portable
#define HEADLENS_VECTOR_BYTES 16
#define HEADLENS_ROWS 1
#include "cpu/products/float_products_kernel.hpp"
