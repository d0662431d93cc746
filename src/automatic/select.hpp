// Which kernels there are, and which of them do best without the set they are asked about.
#pragma once

#include <vector>

#include "automatic/tokens.hpp"
#include "backend/backend.hpp"

namespace headlens::automatic {

// Penalties as multiples of the mean eigenvalue of the centred kernel.
std::vector<double> penalties(bool classifier);

struct Trial {
  AutomaticMember member;
  Matrix<double> predictions;  // (n, q) leave-one-out
};

// Every kernel with its error, best first; none if no block differs between the sets. `tokens`: all training
// sets, or a part that is small enough. So many workers compare kernels at a time, for each takes memory.
std::vector<Trial> screen(const TokenFrame& frame, const Tokens& tokens, MatrixView<const double> y,
                          bool classifier, int workers, const backend::Context& context);

// Regression: the first of them, as long as they are nearly as good as the best. Classes: those that have a
// weight when all that are not much worse than the best are stacked.
std::vector<AutomaticMember> committee(const std::vector<Trial>& trials, MatrixView<const double> y,
                                       bool classifier);

// What every member of a committee counts, from its leave-one-out predictions of all sets.
std::vector<double> weigh(const std::vector<const Matrix<double>*>& predictions, MatrixView<const double> y,
                          bool classifier);

// Upper bounds, known before any kernel is tried: members of a committee, and blocks that are compared.
Index most_members(bool classifier);
Index most_blocks(bool classifier);

}  // namespace headlens::automatic
