// The memory budget. Every command predicts its peak before it allocates and refuses with both numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headlens/execution.hpp"

namespace headlens {

// What the machine (and the control group, if one limits this process) has free now.
std::uint64_t free_memory_bytes();

// What the limit on the address space of this process (ulimit -v) leaves; UINT64_MAX without a limit.
std::uint64_t address_space_left();

std::string format_bytes(std::uint64_t bytes);  // "1.5 GiB"

class MemoryBudget {
 public:
  explicit MemoryBudget(const Execution& execution) : MemoryBudget(execution, free_memory_bytes()) {}
  // For another memory than that of the process, of which so much is free; or where what is asked for counts
  // so many bytes that are held already, and are free no longer.
  MemoryBudget(const Execution& execution, std::uint64_t free_bytes, std::uint64_t held_bytes = 0);

  std::uint64_t limit_bytes() const { return limit_bytes_; }
  bool fits(double bytes) const { return bytes <= static_cast<double>(limit_bytes_); }
  // Throws Error{memory}: "WHAT needs 12.0 GiB, but only 8.0 GiB may be used (max-memory; ...)".
  void require(double bytes, std::string_view what) const;

 private:
  std::uint64_t limit_bytes_;
};

}  // namespace headlens
