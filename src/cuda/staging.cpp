#include "cuda/staging.hpp"

#include <algorithm>
#include <cstring>

#include "base/parallel.hpp"

namespace headlens::cuda {

void* Staging::next(std::size_t bytes) {
  Slot& slot = slots_[turn_ ^= 1];
  if (!slot.travelled) check(cudaEventCreateWithFlags(&slot.travelled, cudaEventDisableTiming));
  check(cudaEventSynchronize(slot.travelled));
  if (slot.bytes < bytes) {
    if (slot.memory) check(cudaFreeHost(slot.memory));
    slot.memory = nullptr;
    check(cudaMallocHost(&slot.memory, std::max(bytes, kBytes)));
    slot.bytes = std::max(bytes, kBytes);
  }
  return slot.memory;
}

void Staging::send(void* to, std::size_t bytes) {
  check(cudaMemcpyAsync(to, slots_[turn_].memory, bytes, cudaMemcpyHostToDevice, device().stream));
  check(cudaEventRecord(slots_[turn_].travelled, device().stream));
}

void Staging::fetch(const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(slots_[turn_].memory, from, bytes, cudaMemcpyDeviceToHost, device().stream));
  check(cudaEventRecord(slots_[turn_].travelled, device().stream));
}

void Staging::wait() const { check(cudaEventSynchronize(slots_[turn_].travelled)); }

Staging& staging() {
  thread_local auto* const mine = new Staging;  // kept, as the handles of device()
  return *mine;
}

void download_large(const void* from, std::size_t bytes, void* to, int threads) {
  constexpr std::size_t kShare = Staging::kBytes / 16;
  const auto* source = static_cast<const char*>(from);
  auto* target = static_cast<char*>(to);
  const auto fetch = [&](std::size_t at) -> const char* {
    if (at >= bytes) return nullptr;
    const std::size_t size = std::min(Staging::kBytes, bytes - at);
    const auto* memory = static_cast<const char*>(staging().next(size));
    staging().fetch(source + at, size);
    return memory;
  };
  const char* here = fetch(0);
  for (std::size_t at = 0; at < bytes; at += Staging::kBytes) {
    staging().wait();  // for the piece at `at`, before the next one is asked for
    const char* next = fetch(at + Staging::kBytes);
    const std::size_t size = std::min(Staging::kBytes, bytes - at);
    parallel_for(threads, static_cast<Index>((size + kShare - 1) / kShare), [&](Index share, int) {
      const std::size_t first = static_cast<std::size_t>(share) * kShare;
      std::memcpy(target + at + first, here + first, std::min(kShare, size - first));
    });
    here = next;
  }
}

}  // namespace headlens::cuda
