// The assignment of rows to columns of least total cost (rows <= columns): shortest augmenting paths with
// potentials (Kuhn 1955; Jonker, Volgenant 1987), O(rows^2 columns). Costs are finite.
#pragma once

#include <vector>

#include "headlens/array.hpp"

namespace headlens {

// The column of every row.
std::vector<Index> assign(const std::vector<std::vector<double>>& cost);

}  // namespace headlens
