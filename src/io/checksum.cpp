#include "io/checksum.hpp"

#include <zlib.h>

namespace headlens::io {

std::uint32_t checksum(const void* bytes, std::size_t size, std::uint32_t before) {
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(bytes), size));
}

}  // namespace headlens::io
