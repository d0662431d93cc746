// What the host asks of arrays on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device.hpp"
#include "headlens/device_memory.hpp"

namespace headlens::cuda {

// Of the first NaN or infinity, or `count`. Waits.
template <class T>
Index first_non_finite(const T* values, Index count);

// The parts, one after the other, in words of 4 bytes. Waits.
DeviceArray<std::uint32_t> gather_words(const void* from, const std::vector<DeviceMemory::Part>& parts);

}  // namespace headlens::cuda
