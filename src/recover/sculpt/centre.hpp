// The point in the middle of the cuts, and the cuts that no point near it can meet.
//
//   minimise sum over slabs h(sqrt(w) |<Theta, z> - t|) + sum over half-spaces h((<Theta, z> - t)_+)
//
// with Huber's h, quadratic up to the tolerance and linear beyond: convex, and a few slabs that say something
// else do not move the centre. Half-spaces of one-hot rows keep the centre on their side; these add little to
// the slabs, which the same rows give wherever a second weight can be read. Slabs and half-spaces that miss
// the centre by far are outliers.
// Newton's steps (weights of Huber, half-spaces that are missed) with halving; O(N d^4 + d^6) flops per step.
#pragma once

#include "recover/sculpt/slabs.hpp"

namespace headlens::recovery::sculpting {

struct Centre {
  std::vector<double> theta;
  Cuts cuts;           // those that are no outliers; of the half-spaces the tightest at the centre first
  Index missed = 0;    // of these half-spaces, the first, which the centre misses a little
  Index outliers = 0;  // slabs and half-spaces left out
};
Centre find_centre(const Cuts& cuts, const Effort& effort);

}  // namespace headlens::recovery::sculpting
