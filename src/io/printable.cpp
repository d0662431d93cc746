#include "io/printable.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace headlens::io {
namespace {

bool is_unsafe(std::uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool line_or_direction = (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return control || line_or_direction;
}

// Bytes of the character that `text` begins with; 0 where it is not UTF-8 or not fit to show.
std::size_t safe_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return is_unsafe(lead) ? 0 : 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  std::uint32_t point = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0U) != 0x80U) return 0;
    point = (point << 6) | (byte & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  const bool valid = point >= smallest.at(length) && point < 0x110000 && !surrogate;
  return valid && !is_unsafe(point) ? length : 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    if (i >= limit) return shown + "...";
    const std::size_t length = safe_length(text.substr(i));
    if (length > 0) {
      shown += text.substr(i, length);
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    }
    i += length > 0 ? length : 1;
  }
  return shown;
}

}  // namespace headlens::io
