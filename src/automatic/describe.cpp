// A member in words.
#include <fmt/format.h>

#include "headlens/automatic.hpp"

namespace headlens {

std::string describe(const AutomaticMember& member) {
  std::string out;
  bool pools = false;
  for (const SetBlockInfo& block : member.blocks) {
    if (block.kind == BlockKind::attention)
      out += fmt::format("attention at {}", block.parameter);
    else if (block.kind == BlockKind::embedding)
      out += fmt::format("embedding at {}", block.parameter);
    else if (block.kind == BlockKind::query)
      out += " + query";
    else if (!pools) {
      out += out.empty() ? "pools" : " + pools";
      pools = true;
    }
  }
  return out + (member.gamma == 0 ? ", linear" : fmt::format(", gamma {}", member.relative_gamma));
}

}  // namespace headlens
