// Examples of a refit, and what a layer with shared keys and values makes of them.
#pragma once

#include <vector>

#include "attention/tied_map.hpp"

namespace headlens::refitting {

// Views that outlive their use; x has the last coordinate 1 with biases.
struct TiedExamples {
  MatrixView<const double> x, y;  // (n k, rows), (n k, e)
  Index tokens = 0;
  std::vector<Index> lengths = {};

  Index count() const { return x.rows / tokens; }
  TiedExamples part(Index first, Index count) const;  // of the examples
};

double relative_error(const TiedLayer& layer, const TiedExamples& examples, int threads);  // |F - Y| / |Y|
// O that is best for these Q, K and V: least squares with a ridge of 1e-10 of the mean diagonal of Phi^T Phi.
// False, and O as before, where the features are not finite.
bool solve_readout(TiedLayer& layer, const TiedExamples& examples, int threads);

}  // namespace headlens::refitting
