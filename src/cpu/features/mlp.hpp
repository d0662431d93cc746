// The plain random-feature network: phi_m = relu(<w_m, [xt_0 .. xt_N]>), one GEMM per tile of sets.
#pragma once

#include <memory>

#include "cpu/features/feature_map.hpp"

namespace headlens::cpu {

template <class T>
std::unique_ptr<HeadMap<T>> make_mlp_map(const FeatureOptions& options, Index dim, Index keys,
                                         const Array& neurons);

}  // namespace headlens::cpu
