#include "base/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "headlens/bytes.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::uint64_t available_from_kernel() {
  std::ifstream file("/proc/meminfo");
  std::string field;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> field >> kib) {
    if (field == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return 4ULL << 30;
}

// Version 2 groups first, then version 1; "max" is not a number and so no limit.
std::uint64_t available_in_group() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) return *limit > *used ? *limit - *used : 0;
  const auto limit1 = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const auto used1 = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  if (limit1 && used1) return *limit1 > *used1 ? *limit1 - *used1 : 0;
  return UINT64_MAX;
}

}  // namespace

std::uint64_t address_space_left() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const std::uint64_t used =
      number_in("/proc/self/statm").value_or(0) * static_cast<std::uint64_t>(getpagesize());
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

std::uint64_t free_memory_bytes() {
  return std::min({available_from_kernel(), available_in_group(), address_space_left()});
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(units)) value /= 1024.0, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::uint64_t parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.ends_with("iB"))
    unit.remove_suffix(2);
  else if (unit.ends_with("B"))
    unit.remove_suffix(1);
  constexpr std::string_view letters = "KMGT";
  const auto letter = unit.empty() ? std::string_view::npos : letters.find(unit.front());
  const bool known = unit.empty() || (unit.size() == 1 && letter != std::string_view::npos);
  require(error == std::errc() && known && value > 0 && value < 1e15, "memory size: '", text,
          "' is not a size such as 800M or 8G");
  double bytes = value;
  for (std::size_t i = 0; !unit.empty() && i <= letter; ++i) bytes *= 1024.0;
  require(bytes < 0x1p63, "memory size: '", text, "' is too large");
  return static_cast<std::uint64_t>(bytes);
}

MemoryBudget::MemoryBudget(const Execution& execution, std::uint64_t free_bytes, std::uint64_t held_bytes)
    : limit_bytes_(execution.max_memory_bytes > 0 ? execution.max_memory_bytes
                                                  : free_bytes / 10 * 8 + held_bytes) {}

void MemoryBudget::require(double bytes, std::string_view what) const {
  if (fits(bytes)) return;
  const auto rounded = static_cast<std::uint64_t>(std::min(bytes, 0x1p63));
  throw Error(ErrorCode::memory,
              message(what, " needs ", format_bytes(rounded), ", but only ", format_bytes(limit_bytes_),
                      " may be used (", option("max-memory"), "; by default 80% of what is free)"));
}

}  // namespace headlens
