// The leave-one-out errors of penalties: of all of them where one factorisation serves all, and otherwise of
// those that golden section and parabolas ask for.
#pragma once

#include <vector>

#include "backend/gram.hpp"
#include "headlens/fit.hpp"

namespace headlens::training {

struct PathTrials {
  std::vector<RidgeTrial> trials;  // from the largest penalty down
  bool cut = false;                // the precision does not resolve the penalty after the last of these
};

// `ridges` from the largest down, `count` examples. The least error is found if errors fall and then rise
// along the penalties, and a local minimum otherwise.
PathTrials try_penalties(backend::ShiftPath& path, const std::vector<double>& ridges, Index count);

// What a report says after "leave-one-out".
const char* search_words(const backend::ShiftPath& path);

}  // namespace headlens::training
