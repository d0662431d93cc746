// Which kernels there are, and which of them do best without the set they are asked about.
#pragma once

#include <vector>

#include "automatic/tokens.hpp"
#include "backend/backend.hpp"

namespace headlens::automatic {

// Penalties as multiples of the mean eigenvalue of the centred kernel.
std::vector<double> penalties(bool classifier);

// Every kernel with its error, best first; none if no block differs between the sets. `tokens`: all training
// sets, or a part that is small enough. So many workers compare kernels at a time, for each takes memory.
std::vector<AutomaticMember> screen(const TokenFrame& frame, const Tokens& tokens, MatrixView<const double> y,
                                    bool classifier, int workers, const backend::Context& context);

// The first of them, as long as they are nearly as good as the best. Of classes the first attention kernels
// and the first kernels of pools, equally many at most: the two kinds err on different sets.
std::vector<AutomaticMember> committee(const std::vector<AutomaticMember>& trials, bool classifier);

// Upper bounds, known before any kernel is tried: members of a committee, and lists of blocks that are
// compared.
Index most_members(bool classifier);
Index most_lists(bool classifier);

}  // namespace headlens::automatic
