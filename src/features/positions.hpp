// Sinusoidal positions, and sets with the positions added to their keys.
#pragma once

#include <vector>

#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens {

// Sinusoidal encodings (positions, d): sin(i / 10000^(2j/d)) at 2j, cos at 2j + 1. Empty for Positions::none.
std::vector<double> position_table(Positions positions, Index count, Index dim);

// Query (d) and keys (N, d) of set s, rounded to T; positions are added to the rounded keys. `table` from
// position_table.
template <class T>
void copy_with_positions(const Sets& sets, Index s, const std::vector<double>& table, T* query, T* keys);

}  // namespace headlens
