// One head more, where the heads so far leave something that is not rounding: one of them may be two that are
// nearly parallel, or another may be too faint to have been found beside them.
#pragma once

#include "recover/linearisation.hpp"

namespace headlens::recovery {

// Entries of Theta: every attempt takes some ten factorisations. left_over.hpp has a way for more.
inline constexpr Index kMostGrown = 512;

// Up to three more heads until the labels are explained to rounding, less those that this did not need; fewer
// if they explain at least ten times more than those given. No value if neither.
std::optional<Linearisation> grow(const Split& split, const Linearisation& from, std::uint64_t seed,
                                  Effort& effort);

// Heads that are not needed left out, one by one, as long as the labels stay explained to rounding.
Linearisation shed(const Split& split, Linearisation at, Effort& effort);

}  // namespace headlens::recovery
