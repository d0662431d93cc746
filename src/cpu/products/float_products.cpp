#include "cpu/products/float_products.hpp"

#include "headlens/error.hpp"

namespace headlens::cpu {

#define HEADLENS_DECLARE(isa)                                                                        \
  namespace isa {                                                                                    \
  void round_group(Index, const float*, Index, std::int32_t*, float*);                               \
  void add_block(Index, RoundedGroup, RoundedGroup, float*, Index);                                  \
  double dot(Index, const float*, const double*);                                                    \
  void add_rows(Index, Index, const float*, Index, const double*, Index, double*);                   \
  constexpr FloatProducts kKernels{kSingleLanes * kRoundedSteps / 2, &round_group, &add_block, &dot, \
                                   &add_rows};                                                       \
  }
HEADLENS_DECLARE(portable)
#if defined(__x86_64__)
HEADLENS_DECLARE(avx2)
HEADLENS_DECLARE(avx512)
namespace amx {
void round_group(Index, const float*, Index, std::int32_t*, float*);
void add_block(Index, RoundedGroup, RoundedGroup, float*, Index);
constexpr FloatProducts kKernels{kSingleLanes * kRoundedSteps, &round_group, &add_block, &avx512::dot,
                                 &avx512::add_rows};
}  // namespace amx
#endif
#undef HEADLENS_DECLARE

FloatProducts float_products(SimdLevel level, [[maybe_unused]] bool integer_tiles) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return integer_tiles ? amx::kKernels : avx512::kKernels;
  if (level == SimdLevel::avx2) return avx2::kKernels;
#endif
  ensure(level == SimdLevel::portable, "no float products for ", name(level));
  return portable::kKernels;
}

}  // namespace headlens::cpu
