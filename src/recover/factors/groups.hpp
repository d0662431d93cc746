// Heads that share keys and values. A group is one tall head: with Q of its heads one below the other and
// their O side by side,
//
//   (Theta_1; Theta_2; ..) = (Q_1; Q_2; ..) K^T,     (W_1, W_2, ..) = V (O_1, O_2, ..),
//
// so that what makes a head balanced makes a group balanced, and the heads of one group are found by the best
// tall head of rank r.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

// The groups of a layer, one after another; single heads where nothing is shared. The head that holds the
// constant is the last.
std::vector<OwnHead> tall_heads(const Factors& factors);
// The layer of these tall heads, of the kind of `like`.
Factors from_tall(const std::vector<OwnHead>& tall, const backend::HeadRanks& like);

// Heads that share nothing yet become so many groups of equally many heads: heads whose keys and values lie
// in one span. The order of the heads is that of their groups.
Factors tied(const Factors& factors, Index groups);

}  // namespace headlens::recovery
