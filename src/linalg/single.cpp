#include "linalg/single.hpp"

#include "headlens/error.hpp"

namespace headlens {

#define HEADLENS_DECLARE(isa)                                                      \
  namespace isa {                                                                  \
  void add_block(Index, const float*, const float*, float*, Index);                \
  double dot(Index, const float*, const double*);                                  \
  void add_rows(Index, Index, const float*, Index, const double*, Index, double*); \
  }
HEADLENS_DECLARE(portable)
#if defined(__x86_64__)
HEADLENS_DECLARE(avx2)
HEADLENS_DECLARE(avx512)
#endif
#undef HEADLENS_DECLARE

SingleKernels single_kernels(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return {&avx512::add_block, &avx512::dot, &avx512::add_rows};
  if (level == SimdLevel::avx2) return {&avx2::add_block, &avx2::dot, &avx2::add_rows};
#endif
  ensure(level == SimdLevel::portable, "no float products for ", name(level));
  return {&portable::add_block, &portable::dot, &portable::add_rows};
}

}  // namespace headlens
