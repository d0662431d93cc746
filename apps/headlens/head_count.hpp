// --heads of fit and theory: a whole number, or inf.
#pragma once

#include "headlens/model.hpp"
#include "words.hpp"

namespace headlens::app {

inline Index parse_heads(const std::string& text) {
  if (text == "inf") return kInfiniteHeads;
  const auto value = parse_whole<Index>(text);
  require(value && *value >= 1 && *value <= kMostFiniteHeads, "heads: '", text,
          "' given, expected a whole number from 1 to ", kMostFiniteHeads, ", or inf");
  return *value;
}

}  // namespace headlens::app
