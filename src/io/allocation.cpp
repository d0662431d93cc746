#include "io/allocation.hpp"

#include <fmt/format.h>

#include "base/memory.hpp"
#include "headlens/error.hpp"

namespace headlens::io {

std::optional<std::uint64_t> byte_count(DType type, const std::vector<Index>& shape) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 62;  // the same as Array's
  std::uint64_t bytes = item_bytes(type);
  bool empty = false;
  for (const Index n : shape) {
    empty = empty || n == 0;
    if (n > 0 && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) return std::nullopt;
    if (n < 0 || bytes >= limit) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

void require_budget(const std::string& label, std::uint64_t needed_bytes, std::uint64_t max_bytes) {
  if (needed_bytes <= max_bytes) return;
  throw Error(
      ErrorCode::memory,
      fmt::format("{}: the arrays take {} bytes ({}) in memory, but only {} bytes ({}) may be used", label,
                  needed_bytes, format_bytes(needed_bytes), max_bytes, format_bytes(max_bytes)));
}

Array allocate(const std::string& label, DType type, const std::vector<Index>& shape) {
  try {
    return {type, shape};
  } catch (const Error& error) {
    throw Error(error.code(), message(label, ": ", error.text()));
  }
}

}  // namespace headlens::io
