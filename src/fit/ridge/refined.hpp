// A penalty given, or chosen, with a Gram matrix of few digits, whose factor then preconditions conjugate
// gradients on the exact products (backend/gram.hpp).
#pragma once

#include <optional>
#include <vector>

#include "backend/backend.hpp"
#include "fit/plan.hpp"

namespace headlens::training {

// False if the few digits do not carry that far: squares that leave the range of float, a best penalty at the
// edge of what float resolves, or a refinement that is slow because float has lost the penalty.
bool solve_refined(backend::Design& design, const Problem& problem, const Plan& plan,
                   MatrixView<const double> y, Solution& solution, const backend::Context& context);

// The penalties that float resolves, from the largest down, with their errors, and the best of them. Nothing
// if float cannot settle the choice.
struct FloatChoice {
  std::vector<RidgeTrial> trials;
  double ridge = 0;
};
std::optional<FloatChoice> choose_in_float(backend::ShiftPath& path, const std::vector<double>& ridges,
                                           Index count);

// At most `most` different numbers below count, in order.
std::vector<Index> draw_examples(Index count, Index most, std::uint64_t seed);

}  // namespace headlens::training
