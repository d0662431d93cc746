// Heads of one layer in factors in the order of another's.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

// The heads of `other`, each at the place of the head of `to` whose Theta is most alike. Same number of
// heads.
Factors matched_to(const Factors& to, const Factors& other);

}  // namespace headlens::recovery
