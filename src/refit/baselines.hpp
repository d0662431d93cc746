// What a refit is asked for, what it starts from, and the layers it is compared with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention/tied_map.hpp"
#include "headlens/refit.hpp"

namespace headlens::refitting {

struct Target {
  Index heads = 0, rank = 0, groups = 0;  // rank: at most this of Theta and of W
};
// Error where the layer cannot be made smaller that way.
Target target_of(const TiedShape& layer, const RefitOptions& options);
void check_groups(const TiedShape& shape);

struct Smaller {
  std::string name;
  TiedLayer layer;
  bool wanted = false;  // has the shape of the target
  bool white = false;   // for white tokens
};
// The layer itself, each way alone, and all that the target asks for together.
std::vector<Smaller> baselines(const TiedLayer& layer, const Target& target);
// All of the shape of the target. Those for white tokens weigh directions by what the inputs have of them.
// `grouped` puts heads that should share beside each other.
using Grouping = std::function<TiedLayer(const TiedLayer&)>;
std::vector<Smaller> starts_for(const TiedLayer& layer, const TiedLayer& white, const Target& target,
                                const Grouping& grouped);

}  // namespace headlens::refitting
