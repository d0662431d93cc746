#include "cpu/kernels/moment_rows.hpp"

#include <algorithm>
#include <cmath>

#include "base/instruction_sets.hpp"
#include "base/normal.hpp"
#include "cpu/kernels/moments.hpp"
#include "headlens/error.hpp"

namespace headlens::cpu {

#define HEADLENS_DECLARE(isa)                                                      \
  namespace isa {                                                                  \
  void arc_cosine(const MomentRow&);                                               \
  bool mehler(const MomentRow&, const double*, const double*, const MehlerTerms&); \
  }
HEADLENS_INSTRUCTION_SETS(HEADLENS_DECLARE)
#undef HEADLENS_DECLARE

MomentRowFunctions moment_row_functions(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return {&avx512::arc_cosine, &avx512::mehler};
  if (level == SimdLevel::avx2) return {&avx2::arc_cosine, &avx2::mehler};
#endif
  ensure(level == SimdLevel::portable, "no kernel for ", name(level));
  return {&portable::arc_cosine, &portable::mehler};
}

void mehler_coefficients(const double* h, double* out) {
  double* term[4] = {out, out + kColumnBlock, out + 2 * kColumnBlock, out + 3 * kColumnBlock};
  for (Index j = 0; j < kColumnBlock; ++j) {
    const double density = normal_density(h[j]), mass = normal_probability(h[j]);
    term[0][j] = h[j] * mass + density;
    term[1][j] = mass;
    term[2][j] = density / std::sqrt(2.0);
    term[3][j] = -h[j] * density / std::sqrt(6.0);
  }
  for (Index t = 4; t < kMehlerTerms; ++t) {  // He_{n+1} = h He_n - n He_{n-1}, divided by sqrt(t!)
    const double x = static_cast<double>(t), one = 1 / std::sqrt(x), two = (x - 3) / std::sqrt(x * (x - 1));
    double* next = out + t * kColumnBlock;
    for (Index j = 0; j < kColumnBlock; ++j)
      next[j] = -h[j] * one * next[j - kColumnBlock] - two * next[j - 2 * kColumnBlock];
  }
}

MehlerTerms::MehlerTerms() {
  for (int i = 0; i < kSteps; ++i) {
    const double rho = std::min(kMehlerReach, (i + 1.0) / kSteps);
    Index t = 2;  // the bound holds from here on
    const auto rest = [&](double n) { return 0.188 * std::pow(rho, n + 1) / (n * (n + 1) * (1 - rho)); };
    while (rest(static_cast<double>(t)) > kMehlerTolerance) ++t;
    ensure(t < kMehlerTerms, "the Mehler table is too short for ", rho);
    terms_[i] = t + 1;
  }
}

}  // namespace headlens::cpu
