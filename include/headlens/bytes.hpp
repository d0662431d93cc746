// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string_view>

namespace headlens {

// "800M", "8G", "8GiB", "123456": powers of 1024. Throws Error on anything else.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace headlens
