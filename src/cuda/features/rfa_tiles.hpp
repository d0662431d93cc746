// The feature map of rfa.hpp on tensor cores, in float, for sets of 9 to 16 keys and tokens of 9 to 16
// coordinates and a one: scores and mixtures are products of 16 x 16 tiles. Every number is the sum of two of
// 11 bits, and only the product of the two small parts is left out, so the digits are those of float.
#pragma once

#include "cuda/features/rfa.hpp"

namespace headlens::cuda {

bool suits_tiles(Index width, Index max_keys);
// As small_attention.
void tile_attention(const Tokens<float>& tokens, Index first, Index count, const Heads<float>& heads,
                    Score score, float* out, int* overflow);

}  // namespace headlens::cuda
