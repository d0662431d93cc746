// A member in words.
#include <fmt/format.h>

#include "headlens/automatic.hpp"

namespace headlens {

namespace {

// The pools are one word: that of the first of them.
std::string word_of(const SetBlockInfo& block, BlockKind first) {
  const auto pool = [](BlockKind kind) { return kind >= BlockKind::mean && kind <= BlockKind::size; };
  if (pool(block.kind) && pool(first)) return block.kind == first ? "pools" : "";
  return block.parameter == 0 ? name(block.kind) : fmt::format("{} at {}", name(block.kind), block.parameter);
}

}  // namespace

std::string describe(const AutomaticMember& member) {
  std::string out;
  for (const SetBlockInfo& block : member.blocks) {
    const std::string word = word_of(block, member.blocks.front().kind);
    if (!word.empty() && !out.empty()) out += " + ";
    out += word;
  }
  return out + (member.gamma == 0 ? ", linear" : fmt::format(", gamma {}", member.relative_gamma));
}

}  // namespace headlens
