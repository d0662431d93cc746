// A layer small enough for dense references, and noisy examples of it.
#pragma once

#include "headlens/layer.hpp"

namespace headlens {

inline constexpr Index kTokens = 3, kDim = 4, kHeads = 2, kOutputs = 3, kCount = 60;

struct SmallLayer {
  AttentionLayer layer;
  Examples examples;

  explicit SmallLayer(double noise)
      : layer(draw_teacher({.heads = kHeads, .dim = kDim, .outputs = kOutputs, .seed = 7})),
        examples(draw_examples(layer, {.count = kCount, .tokens = kTokens, .noise = noise, .seed = 8}, {})) {}
};

}  // namespace headlens
