// Gradient descent on Theta and W together, as one would train the layer: Adam on the whole batch,
//
//   loss = |F - Y|^2 / |Y|^2,    rate = 1e-2 (1 + cos(pi t / T)) / 2 at step t of T,
//
// from Theta_i ~ N(0, (0.5/d)^2) and W ~ N(0, 1/(m d)). Every step is the gradient of all training examples,
// and the schedule counts steps, so that the same seed gives the same path on any machine. W is not
// eliminated, nothing is polished: the trace shows the path of plain training. n k m (6 d^2 + 6 k d)
// operations per step.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

// Where a start of this number begins.
Candidate random_layer(Index dim, Index outputs, Index heads, std::uint64_t seed, int start);

// `steps` steps from the heads given, or fewer where the effort must stop. The trace gets about 200 points,
// the first at step 0, with the held-out error.
Candidate descend(const Split& split, Candidate from, int steps, Effort& effort);

// Starts until one predicts the held-out examples to 8 digits; the one of lowest held-out error.
Candidate find_by_descent(const Split& split, const RecoverOptions& options, Effort& effort);

}  // namespace headlens::recovery
