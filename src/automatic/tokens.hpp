// Tokens as the blocks read them: standardised over the training keys, clipped, without constant coordinates.
#pragma once

#include <vector>

#include "headlens/automatic.hpp"
#include "linalg/matrix.hpp"

namespace headlens::automatic {

// With 200 frequencies the choice among kernels was a matter of their draw; heads are the dearer ones.
constexpr Index kHeads = 200, kFrequencies = 600;

struct Tokens {
  Matrix<double> keys;        // (total, d')
  std::vector<Index> starts;  // (n + 1): set i owns the rows starts[i] .. starts[i + 1]
  Matrix<double> queries;     // (n, d' + 1), with a trailing 1
  Matrix<double> centres;     // (n, d') and (n, R): mean, and variances along every frequency, of the keys
  Matrix<double> spreads;     //   before they were clipped, but for the wildest ones

  Index count() const { return static_cast<Index>(starts.size()) - 1; }
  Index width() const { return keys.cols(); }
  MatrixView<const double> keys_of(Index set) const {
    const auto i = static_cast<std::size_t>(set);
    return keys.view().block(starts[i], 0, starts[i + 1] - starts[i], keys.cols());
  }
};

// Everything of the frame, from the training sets. Heads and frequencies are drawn from the seed.
TokenFrame learn_frame(const Sets& sets, std::uint64_t seed, int threads);
// The same frame with normal scores of the coordinates in place of their values (scores.hpp).
TokenFrame frame_by_scores(const Sets& sets, TokenFrame frame, int threads);

// The sets numbered `chosen`.
Tokens standardise(const TokenFrame& frame, const Sets& sets, const std::vector<Index>& chosen, int threads);

}  // namespace headlens::automatic
