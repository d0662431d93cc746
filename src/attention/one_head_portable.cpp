// The portable instance: 16-byte vectors, which every 64-bit target has.
#define HEADLENS_ISA portable
#define HEADLENS_VECTOR_BYTES 16
#define HEADLENS_ROWS 4
#include "attention/one_head_kernel.hpp"
