#pragma once
#include <math.h>  // lgamma_r is not in <cmath>

namespace headlens {

// log |Gamma(x)|. std::lgamma also writes the sign of Gamma(x) into a variable of the whole process, which
// two threads must not do at once.
inline double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

}  // namespace headlens
