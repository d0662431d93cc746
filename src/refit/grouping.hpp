// Which heads should share keys and values. What two heads lose by sharing depends on where they attend and
// on what they read there, for the given tokens; their weights alone do not tell.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "refit/tied_examples.hpp"

namespace headlens::refitting {

struct PairOptions {
  Index rank = 0;       // of shared keys and values, at most
  double flops = 3e12;  // for all pairs: half a minute or so
  std::uint64_t seed = 0;
};

// (m, m), symmetric: |F - Y|^2 per token of every two heads, alone, with shared keys and values, after a
// short descent; zeros for the pairs that are left when stop() is true.
Matrix<double> pair_costs(const TiedLayer& layer, const TiedExamples& examples, const PairOptions& options,
                          const std::function<bool()>& stop, int threads);

// The heads in an order whose groups of neighbours, equally many heads each, have pairs of least total cost:
// exchanges of two heads, from the order as it is and from random ones, as long as the cost falls.
std::vector<Index> cheapest_groups(const Matrix<double>& costs, Index groups, std::uint64_t seed);

// These heads in this order, the constant as in the layer.
TiedLayer in_order(const TiedLayer& layer, const std::vector<Index>& order);

}  // namespace headlens::refitting
