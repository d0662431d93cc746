#include "attention/one_head.hpp"

#include "base/instruction_sets.hpp"
#include "headlens/error.hpp"

namespace headlens {

#define HEADLENS_DECLARE(isa)                       \
  namespace isa {                                   \
  template <class T>                                \
  OneHead<T> head_functions();                      \
  extern template OneHead<float> head_functions();  \
  extern template OneHead<double> head_functions(); \
  }
HEADLENS_INSTRUCTION_SETS(HEADLENS_DECLARE)
#undef HEADLENS_DECLARE

template <class T>
OneHead<T> one_head(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return avx512::head_functions<T>();
  if (level == SimdLevel::avx2) return avx2::head_functions<T>();
#endif
  ensure(level == SimdLevel::portable, "no products of heads for ", name(level));
  return portable::head_functions<T>();
}

template OneHead<float> one_head<float>(SimdLevel);
template OneHead<double> one_head<double>(SimdLevel);

}  // namespace headlens
