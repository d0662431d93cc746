// Where the tokens of an example lie symmetrically around their mean c (two tokens always do), a head has a
// mirror image: the weights that -Theta gives to the tokens are those that Theta gives to their reflections 2
// c - x, so
//
//   attention by (Theta, W) = attention by (-Theta, -W) + 2 c W.
//
// A layer and the one with the heads S turned over then differ by 2 c sum_S W. Where that is zero, where a
// head of Theta = 0 can supply it, or where one of a head's own mirror image can (Theta_j = -Theta_i), both
// are the same function and no such example tells them apart.
#pragma once

#include "recover/certificate/bounds.hpp"

namespace headlens::recovery {

// bounds: absolute, of every head. Heads that may be turned over without moving the labels of the examples by
// more than label_error (a norm over all equations of `examples`); empty if some example is not symmetric.
std::vector<Index> mirrored_heads(const Split& examples, const Candidate& candidate, double label_error,
                                  const std::vector<HeadBound>& bounds);

}  // namespace headlens::recovery
