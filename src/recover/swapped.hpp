// Heads that may be swapped for some tokens. Two heads of equal W are told apart only by which rows of logits
// belong together: Theta_i^T x for all query tokens x. If the tokens fall into groups whose spans are
// independent (one-hot tokens, or signs in two dimensions), Theta_i^T and Theta_j^T may be exchanged on one
// group alone, and the outputs on such tokens stay what they are.
#pragma once

#include "recover/bounds.hpp"

namespace headlens {

// Two heads of equal W, within their absolute bounds, that such tokens do not tie together; empty if there
// are none.
std::vector<Index> swappable_heads(const Split& examples, const Candidate& candidate,
                                   const std::vector<HeadBound>& bounds);

// The number of groups of tokens with independent spans: 1 for tokens in general position.
Index independent_groups(MatrixView<const double> tokens);

}  // namespace headlens
