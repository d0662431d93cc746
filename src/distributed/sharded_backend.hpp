// A back end over ranks: composes with the back end of each.
#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace headlens::distributed {

std::unique_ptr<backend::Backend> make_sharded(backend::Backend& own, comm::Communicator& ranks);

// The same, made once and kept.
backend::Backend& sharded(backend::Backend& own, comm::Communicator& ranks);

}  // namespace headlens::distributed
