// Arrays in the memory of the device: borrowed from whoever owns them, and given to callers.
#pragma once

#include "cuda/device.hpp"
#include "headlens/device_memory.hpp"

namespace headlens::cuda {

// Waits for the legacy default stream, which comes after what computes the memory. Error if the
// first or the last of the `bytes` is no memory of the device.
std::shared_ptr<const DeviceMemory> borrow(std::shared_ptr<void> address, std::size_t bytes);

// Waits for what is written to the values. Whoever frees the array waits for the device.
template <class T>
Array give(DeviceArray<T> values, std::vector<Index> shape);

}  // namespace headlens::cuda
