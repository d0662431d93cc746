// Where the factors of one head lie: Q, K and V in these columns of one matrix of parameters, O in rows of
// another.
#pragma once

#include "headlens/array.hpp"

namespace headlens {

struct HeadColumns {
  Index q = 0, k = 0, v = 0, o = 0;
  Index logits = 0, values = 0;  // how many
};

}  // namespace headlens
