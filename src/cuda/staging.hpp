// Two buffers of the host that the device reads and writes without a copy of the driver's: one is filled or
// emptied by threads while the other travels.
#pragma once

#include <array>

#include "cuda/device.hpp"

namespace headlens::cuda {

class Staging {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 24;

  void* next(std::size_t bytes);  // the other buffer, once it has travelled
  void send(void* to, std::size_t bytes);
  void fetch(const void* from, std::size_t bytes);  // wait() before it is read
  void wait() const;

 private:
  struct Slot {
    void* memory = nullptr;
    std::size_t bytes = 0;
    cudaEvent_t travelled = nullptr;
  };
  std::array<Slot, 2> slots_;
  std::size_t turn_ = 0;
};

// Of the calling thread.
Staging& staging();

// Many bytes of the device to `to`, copied on by `threads` threads.
void download_large(const void* from, std::size_t bytes, void* to, int threads);

}  // namespace headlens::cuda
