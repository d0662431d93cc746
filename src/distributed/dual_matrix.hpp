// The entries of K that a rank has. All ranks get all sets, n (1 + N) d numbers, which are few beside n^2 /
// R; then no rank needs anything of another, whatever entries the grid gives it.
#pragma once

#include "backend/backend.hpp"
#include "distributed/cyclic_matrix.hpp"

namespace headlens::distributed {

// K of infinitely many heads, and Phi Phi^T of heads: before centring.
CyclicMatrix kernel_matrix(const backend::FeatureSource& source, backend::Backend& own,
                           const backend::Context& context);
CyclicMatrix head_matrix(const backend::FeatureSource& source, const Array& heads, backend::Backend& own,
                         const backend::Context& context);

}  // namespace headlens::distributed
