#include "cpu/features/rfa.hpp"

#include <algorithm>

#include "base/instruction_sets.hpp"
#include "headlens/error.hpp"

namespace headlens::cpu {

#define HEADLENS_DECLARE(isa)                                                                                \
  namespace isa {                                                                                            \
  template <class T>                                                                                         \
  bool rfa(const PackedSets<T>&, HeadBlock<T>, Score, T*, T*, Index);                                        \
  extern template bool rfa<float>(const PackedSets<float>&, HeadBlock<float>, Score, float*, float*, Index); \
  extern template bool rfa<double>(const PackedSets<double>&, HeadBlock<double>, Score, double*, double*,    \
                                   Index);                                                                   \
  template <class T>                                                                                         \
  void add_lane_products(Index, const T*, Index, Index, Index, const double*, Index, double*);               \
  extern template void add_lane_products<float>(Index, const float*, Index, Index, Index, const double*,     \
                                                Index, double*);                                             \
  extern template void add_lane_products<double>(Index, const double*, Index, Index, Index, const double*,   \
                                                 Index, double*);                                            \
  }
HEADLENS_INSTRUCTION_SETS(HEADLENS_DECLARE)
#undef HEADLENS_DECLARE

Index rfa_scratch_items(Index dim, Index max_keys) { return (kGroup * (dim + 1) + max_keys) * kLanes; }

template <class T>
RfaFunction<T> rfa_function(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return &avx512::rfa<T>;
  if (level == SimdLevel::avx2) return &avx2::rfa<T>;
#endif
  ensure(level == SimdLevel::portable, "no feature map for ", name(level));
  return &portable::rfa<T>;
}

template <class T>
LaneProductFunction<T> lane_product_function(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return &avx512::add_lane_products<T>;
  if (level == SimdLevel::avx2) return &avx2::add_lane_products<T>;
#endif
  ensure(level == SimdLevel::portable, "no products for ", name(level));
  return &portable::add_lane_products<T>;
}

template RfaFunction<float> rfa_function<float>(SimdLevel);
template RfaFunction<double> rfa_function<double>(SimdLevel);
template LaneProductFunction<float> lane_product_function<float>(SimdLevel);
template LaneProductFunction<double> lane_product_function<double>(SimdLevel);

}  // namespace headlens::cpu
