// Which heads explain what a layer misses; see headlens/check.hpp for the three refits.
#pragma once

#include <vector>

#include "headlens/check.hpp"
#include "match/evaluate.hpp"

namespace headlens::matching {

// Rows of padding are no part of `residual`: example i has views[i].length rows.
struct Residual {
  const LayerHeads& layer;
  const std::vector<View>& views;
  std::vector<Matrix<double>> rows;  // (length, e) of every example
  double label_norm = 0;             // |Y|
  double tolerance = 0;              // where to stop: |R| / |Y|
  int threads = 1;
};

// The heads to blame, half of all at most; the first explains most. None where they leave a tenth of |R|^2 or
// more.
std::vector<Damage> find_suspects(const Residual& residual);
// The share of |R|^2 that one vector, the same in every row, explains.
double share_of_constant(const Residual& residual);

}  // namespace headlens::matching
