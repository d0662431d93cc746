// Is there a head in what the heads leave of the labels? For problems too large for a factor (grow.hpp).
//
// One head, or two around one of those that were found, are fitted to the residual of training examples.
// Under noise that fit knows nothing of the residual r of held-out examples, so with f its prediction there
//
//   z = sum_rows <f, r> / (sum_rows <f, r>^2)^(1/2)
//
// is about standard normal; a head that is missing makes it as large as the root of the number of rows.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

struct LeftOver {
  double z = 0;          // the largest of all attempts
  Matrix<double> theta;  // the candidate's heads with those of that attempt

  bool is_head() const { return z > 6; }  // as in whiteness.hpp
};
LeftOver find_left_over(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort);

// Problems of one head more than these that grow() leaves to this file.
bool is_beyond_factors(const Split& split, Index heads);

// The candidate, with more heads where they leave less than a tenth of the held-out error.
Candidate grow_large(const Split& split, Candidate candidate, std::uint64_t seed, Effort& effort);

}  // namespace headlens::recovery
