// Directions in which the tokens never vary. Along u with <u, x> = 0 for all tokens, nothing is seen of
// Theta^T u, of Theta u and of W^T u. Along u with <u, x> constant within every example (a coordinate that
// never changes), Theta u adds the same to all logits of a row, and W^T u adds the same whatever is attended
// to: nothing is seen of the first, and only the sum over heads of the second.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// Orthonormal, in the coordinates of the examples.
std::vector<std::vector<double>> unseen_directions(const Split& split);

// Do the means of the examples span all directions? If not, a head of Theta = 0 may hide.
bool means_are_seen(const Split& split);

// "coordinate 3 of the tokens", "coordinates 0 to 4 of the tokens in one combination": for people.
std::string describe_direction(const std::vector<double>& direction);

}  // namespace headlens::recovery
