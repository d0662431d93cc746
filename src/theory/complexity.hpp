// B(f), the squared norm of f in the space of the kernel: the sum over parts of E[f_ab^2] / lambda_ab.
#pragma once

#include <vector>

#include "theory/spectrum.hpp"
#include "theory/target.hpp"

namespace headlens {

// Infinite if it exceeds the range of a double.
double complexity(const std::vector<TargetPart>& parts, const KernelSpectrum& spectrum);

}  // namespace headlens
