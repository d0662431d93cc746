// Recoveries on several ranks: what all do together, and that all have read the same.
#pragma once

#include "comm/communicator.hpp"
#include "headlens/recover.hpp"

namespace headlens::recovery {

// The search in factors is shared by all ranks. Everything else is for rank 0 alone, and so are positions,
// padding and shared keys.
bool is_shared(const Examples& examples, const RecoverOptions& options);

// All ranks hold all examples, of which each works on a part. Error if they have read different ones.
void require_same_examples(const Examples& examples, comm::Communicator& ranks);

}  // namespace headlens::recovery
