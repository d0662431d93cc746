// The first phase of a refit: Q, K, V and O move at once, in float, by steps of MovingFactors on batches of
// examples, with a rate that falls to zero along half a cosine. Steps are in units of the root mean square of
// each of the four, so that the scale of a layer does not matter.
//
// A layer that is made smaller labels any tokens. Its batches are new examples, crossed from two that are
// there: the first tokens of one, up to a random place, before the rest of the other. So a smaller layer does
// not learn examples by heart.
#pragma once

#include <cstdint>
#include <functional>

#include "refit/tied_examples.hpp"

namespace headlens::refitting {

struct DescentOptions {
  int steps = 0;
  std::uint64_t seed = 0;
  Index rows = 1024;                   // tokens of a batch
  const TiedLayer* teacher = nullptr;  // labels crossed examples; none: the examples with their labels
};
// Asked before every step with the relative error |F - Y| / |Y| of the batch before; true ends the descent.
using DescentWatch = std::function<bool(int step, double batch_error)>;

TiedLayer descend(const TiedLayer& start, const TiedExamples& examples, const DescentOptions& options,
                  const DescentWatch& watch, int threads);

}  // namespace headlens::refitting
