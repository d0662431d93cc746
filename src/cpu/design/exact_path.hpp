// The path of backend/gram.hpp in double. K or G is reduced once to band form (linalg/band.hpp); then a
// penalty costs O(size * band) per example.
#pragma once

#include "cpu/design/exact_gram.hpp"

namespace headlens::cpu {

std::unique_ptr<backend::ShiftPath> make_exact_path(Matrix<double> gram,
                                                    std::shared_ptr<const NormalEquations> equations,
                                                    const backend::Context& context);

}  // namespace headlens::cpu
