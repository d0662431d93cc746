// With two tokens a head has a mirror image. For x_1, x_2 and z the difference of its two logits,
//
//   attention by (Theta, W) = x_2 W + sigmoid(z) (x_1 - x_2) W = attention by (-Theta, -W) + (x_1 + x_2) W,
//
// so a layer and the one with the heads S turned over differ by (x_1 + x_2) sum_S W. Where that sum is zero,
// where a head of Theta = 0 can supply it, or where one of a head's own mirror image can (Theta_j =
// -Theta_i), both are the same function and no example tells them apart.
#pragma once

#include "recover/bounds.hpp"

namespace headlens {

// bounds: absolute, of every head. Heads that may be turned over without moving the labels of the examples by
// more than label_error (a norm over all equations of `examples`); empty for three tokens or more.
std::vector<Index> mirrored_heads(const Split& examples, const Candidate& candidate, double label_error,
                                  const std::vector<HeadBound>& bounds);

}  // namespace headlens
