// Examples in units in which every coordinate of the tokens, and the labels, are of size one, and results
// back in the units given. Starts, damping and single precision count on that size. The units are powers of
// two, so nothing is rounded:
//
//   x_a = 2^t_a x'_a,  Y = 2^y Y':    Theta_ab = Theta'_ab 2^-(t_a + t_b),  W_bc = W'_bc 2^(y - t_b)
#pragma once

#include "headlens/recover.hpp"
#include "linalg/matrix.hpp"

namespace headlens::recovery {

struct Units {
  std::vector<int> tokens;  // t (d)
  int labels = 0;           // y

  std::vector<double> theta_weights() const;  // 2^-t_a, divided by the largest of them
};

Units units_of(const Examples& examples, int threads);
Units plain_units(const Examples& examples);  // as given
// X', Y'; the same arrays where all are 0
Examples in_units(const Examples& examples, const Units& units, int threads);
AttentionLayer from_units(const Units& units, const AttentionLayer& layer);

// Throws if a layer of these units has entries that a double cannot hold.
void require_representable(const Units& units);

}  // namespace headlens::recovery
