// NumPy archives: a zip file with one .npy per array, stored or deflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "headlens/arrays.hpp"

namespace headlens::io {

// The archive as bytes in memory; `label` begins every error. See read_npz for the rest.
NamedArrays parse_npz(std::span<const std::byte> bytes, const std::string& label,
                      std::uint64_t max_bytes = UINT64_MAX);

}  // namespace headlens::io
