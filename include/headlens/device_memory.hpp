// Arrays in the memory of a device, which its back end reads where they lie: tokens that another library has
// computed there need no way through main memory. Of such an array the host knows the type and the shape; the
// rest it asks of a DeviceMemory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headlens/array.hpp"

namespace headlens {

class DeviceMemory {
 public:
  struct Part {  // in bytes, both multiples of 4
    std::size_t offset = 0, bytes = 0;
  };

  virtual ~DeviceMemory() = default;
  virtual int number() const = 0;  // of the device
  std::string place() const { return "cuda:" + std::to_string(number()); }
  virtual const void* address() const = 0;  // on the device
  // Of the `count` numbers that lie here, float32 or float64: the first that is NaN or infinite, or `count`.
  virtual Index first_non_finite(DType type, Index count) const = 0;
  // These parts, one after the other, to main memory.
  virtual void fetch(const std::vector<Part>& parts, void* to) const = 0;
};

// Error, with a remedy, unless the CUDA back end is there and works on the device of this number. `name`
// opens the text.
void check_cuda_device(int number, const std::string& name);

// What lies at `address` on a device of CUDA, float32 or float64 in C order. It stays alive as long as the
// array or a copy of it. What computes it must come before the legacy default stream, which this call waits
// for. Error as above, and if the address is not aligned to the type, or the first or
// the last byte is no memory of the device.
Array cuda_array(DType type, std::vector<Index> shape, std::shared_ptr<void> address, int number,
                 const std::string& name);

}  // namespace headlens
