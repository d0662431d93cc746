// The first phase of a refit: Adam in float on Q, K, V and O at once, on batches of examples, with a rate
// that falls to zero along half a cosine. Steps are in units of the root mean square of each of the four, so
// that the scale of a layer does not matter.
#pragma once

#include <cstdint>
#include <functional>

#include "refit/tied_examples.hpp"

namespace headlens::refitting {

struct DescentOptions {
  int steps = 0;
  double rate = 0.02;  // the first, relative to the root mean square of the factors
  std::uint64_t seed = 0;
};
// Asked before every step with the relative error |F - Y| / |Y| of the batch before; true ends the descent.
using DescentWatch = std::function<bool(int step, double batch_error)>;

TiedLayer descend(const TiedLayer& start, const TiedExamples& examples, const DescentOptions& options,
                  const DescentWatch& watch, int threads);

}  // namespace headlens::refitting
