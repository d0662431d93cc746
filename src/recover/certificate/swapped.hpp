// Heads of which parts may be exchanged. Two heads of equal W are told apart only by which rows of logits
// belong together: Theta_i^T x for all query tokens x. If the tokens fall into groups whose spans are
// independent (one-hot tokens, or signs in two dimensions), Theta_i^T and Theta_j^T may be exchanged on one
// group alone; and if queries lie on few lines, they may be exchanged line by line where the result happens
// to be linear. Likewise, where two heads agree on a group (Theta_i^T x = Theta_j^T x there), that group sees
// only the sum of their W.
#pragma once

#include "recover/certificate/bounds.hpp"

namespace headlens::recovery {

// Two heads that such tokens do not tie together, judged by their absolute bounds; empty if there are none.
std::vector<Index> swappable_heads(const Split& examples, const Candidate& candidate,
                                   const std::vector<HeadBound>& bounds);

// d tokens that span all of them, and for each the group of tokens with independent spans that it belongs to:
// all in one group for tokens in general position.
struct TokenGroups {
  std::vector<Index> tokens, group;  // rows of the matrix; numbered from 0

  Index count() const;
};
TokenGroups token_groups(MatrixView<const double> tokens);

}  // namespace headlens::recovery
