// Arrays whose type and shape a file announces: counted, held against the budget, and only then allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::io {

constexpr std::size_t max_rank = 64;  // as in NumPy 2

// Nothing when the product overflows. Zeros do not rescue the others: (2^40, 2^40, 0) has no strides either.
std::optional<std::uint64_t> byte_count(DType type, const std::vector<Index>& shape);

// Error{memory} naming `label` and both numbers.
void require_budget(const std::string& label, std::uint64_t needed_bytes, std::uint64_t max_bytes);

// Like Array(type, shape), but running out of memory names `label`.
Array allocate(const std::string& label, DType type, const std::vector<Index>& shape);

}  // namespace headlens::io
