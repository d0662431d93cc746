// CRC-32 as in zip files and PNG: the only call of zlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headlens::io {

// checksum(b, n, checksum(a, m)) is the checksum of a followed by b.
std::uint32_t checksum(const void* bytes, std::size_t size, std::uint32_t before = 0);

}  // namespace headlens::io
