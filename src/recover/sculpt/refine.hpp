// Phase 3: a better sum of projections, with the help of the proxy.
//
// Soft attention: on rows where all heads attend alike the layer is one head (Theta, S). Its S is fitted by
// variable projection from the proxy, rows are scored again with that S, and fewer are accepted: six rounds,
// geometrically down to 8 d^2 / (k - 1) rows.
// Sharp attention: rows of large margin under the proxy have Y_a = x_b S, b the token that the proxy picks.
// Least squares, trimmed from half of all rows to a twentieth over 15 rounds.
// Both are made; the one with which the final rows agree more closely wins.
#pragma once

#include <string>
#include <vector>

#include "recover/sculpt/agreement.hpp"
#include "recover/sculpt/sum.hpp"

namespace headlens::recovery::sculpting {

struct Refinement {
  ProjectionSum sum;
  Agreement agreement;  // with that sum
  std::string kind;
};

// Rows that the last round of the refinement accepts: enough for 8 slabs per unknown, or for 2 where that
// would be more than an eighth of all rows.
Index final_rows(const Split& split);
// Rows that the first pass accepts: a fifth, at least the final ones.
Index first_rows(const Split& split);

Refinement refine_sum(const Split& split, const Agreement& agreement, const std::vector<double>& proxy,
                      Effort& effort);

}  // namespace headlens::recovery::sculpting
