// The instruction sets that SIMD files are compiled for, each in a namespace of its name.
#pragma once

#if defined(__x86_64__)
#define HEADLENS_INSTRUCTION_SETS(apply) apply(portable) apply(avx2) apply(avx512)
#else
#define HEADLENS_INSTRUCTION_SETS(apply) apply(portable)
#endif
