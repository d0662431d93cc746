// The entries of K that a rank has. Of the other ranks it gets the sets of its rows and of its columns: on a
// grid of r times c ranks at most n (1 / r + 1 / c) sets, (1 + N) d numbers each.
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
