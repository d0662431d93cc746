// Sets that lie on the device, packed there.
#pragma once

#include <vector>

#include "cuda/features/tokens.hpp"

namespace headlens::cuda {

// The sets from `first` on to the rows of `to`, whose count, width and begin are known; as pack_tokens() has
// them. Waits: once it returns nobody reads the arrays of the sets, and whoever owns them may free them.
template <class T>
void pack_on_device(const Sets& sets, Index first, const std::vector<double>& table, Tokens<T>& to);

}  // namespace headlens::cuda
