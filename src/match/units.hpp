// Layers so small that squares of their entries underflow: their heads would all be at distance zero.
// Distances and overlaps do not change where all Theta are multiplied by one number and all W by another.
#pragma once

#include <vector>

#include "headlens/match.hpp"

namespace headlens::matching {

// Powers of two of the largest entries of Theta and of W, over all layers; entries of products are bounded by
// the factors'.
struct Units {
  int theta = 0, w = 0;

  bool tiny() const { return theta < -200 || w < -200; }
};
Units units_of(const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b);
std::vector<LayerHeads> in_units(const std::vector<LayerHeads>& layers, const Units& units);

}  // namespace headlens::matching
