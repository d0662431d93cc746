// Memory of a device that is none: what back ends ask of it is answered from the host, and its address is one
// that nobody can read, so that whoever takes it for memory of the host is found.
#pragma once

#include <cmath>
#include <cstring>

#include "headlens/device_memory.hpp"
#include "headlens/sets.hpp"

namespace headlens::reference {

class EmulatedMemory final : public DeviceMemory {
 public:
  explicit EmulatedMemory(Array values) : values_(std::move(values)) {}

  int number() const override { return 1; }
  const void* address() const override { return reinterpret_cast<const void*>(std::uintptr_t{64}); }
  Index first_non_finite(DType type, Index count) const override {
    EXPECT_EQ(type, values_.dtype());
    for (Index i = 0; i < count; ++i)
      if (!std::isfinite(values_.at(i))) return i;
    return count;
  }
  void fetch(const std::vector<Part>& parts, void* to) const override {
    for (const Part& part : parts) {
      ASSERT_LE(part.offset + part.bytes, values_.bytes());
      std::memcpy(to, static_cast<const char*>(values_.raw()) + part.offset, part.bytes);
      to = static_cast<char*>(to) + part.bytes;
    }
  }

 private:
  Array values_;
};

inline Array on_device(const Array& values) {
  return Array::on_device(values.dtype(), values.shape(), std::make_shared<EmulatedMemory>(values));
}

inline Sets on_device(const Sets& sets) {
  const Array query = on_device(sets.query());
  if (sets.is_sequence()) return Sets::from_sequence(query, sets.name());
  if (sets.is_query_first()) return Sets::from_tokens(query, sets.name());
  return sets.offsets().empty()
             ? Sets::from_arrays(query, on_device(sets.keys()), sets.name())
             : Sets::from_ragged(query, on_device(sets.keys()), sets.offsets(), sets.name());
}

}  // namespace headlens::reference
