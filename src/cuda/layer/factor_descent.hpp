// First-order descent of backend/factors.hpp on the device: the twin of cpu/layer/factor_descent.hpp. All
// examples lie there in float, so a step sends the numbers of a batch and nothing else.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cuda {

std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                            const backend::HeadRanks& ranks,
                                                            const backend::FactorValues& start,
                                                            const backend::Context& context);

}  // namespace headlens::cuda
