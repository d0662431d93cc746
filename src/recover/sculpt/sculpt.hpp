// The paper's method, phase by phase, ending in the polish that every search ends in.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

struct Sculpture {
  Candidate candidate;
  SculptReport report;
  Array span;  // (m-1, d, d): orthonormal directions of the estimated affine hull
};

Sculpture sculpt(const Split& split, const RecoverOptions& options, Effort& effort);

double sculpt_bytes(const Split& split, const RecoverOptions& options);

}  // namespace headlens::recovery
