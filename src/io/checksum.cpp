#include "io/checksum.hpp"

#include <array>
#include <cstring>

namespace headlens::io {
namespace {

using Table = std::array<std::uint32_t, 256>;

// tables[k][b]: the effect of byte b with k zero bytes behind it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1U ? 0xedb88320U : 0U);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[k - 1][byte];
      tables[k][byte] = (value >> 8) ^ tables[0][value & 0xffU];
    }
  return tables;
}

constexpr std::array<Table, 8> tables = make_tables();

}  // namespace

std::uint32_t checksum(const void* bytes, std::size_t size, std::uint32_t before) {
  const auto* next = static_cast<const unsigned char*>(bytes);
  std::uint32_t value = ~before;
  for (; size >= 8; next += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, next, 8);
    word ^= value;
    value = 0;
    for (std::size_t k = 0; k < 8; ++k) value ^= tables[7 - k][(word >> (8 * k)) & 0xffU];
  }
  for (; size > 0; ++next, --size) value = (value >> 8) ^ tables[0][(value ^ *next) & 0xffU];
  return ~value;
}

}  // namespace headlens::io
