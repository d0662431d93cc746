#include "theory/complexity.hpp"

#include <cmath>

namespace headlens {

double complexity(const std::vector<TargetPart>& parts, const KernelSpectrum& spectrum) {
  double sum = 0;
  int negligible = 0;
  for (const TargetPart& part : parts) {
    const double term =
        std::exp(part.log_square - spectrum.log_eigenvalue(part.query_degree, part.key_degree));
    sum += term;
    // Parts come in increasing degree. The expansion of an analytic function goes on far beyond what counts.
    negligible = term < 1e-18 * sum ? negligible + 1 : 0;
    if (negligible == 4) break;
  }
  return sum;
}

}  // namespace headlens
