#include <algorithm>

#include "cuda/array_kernels.hpp"

namespace headlens::cuda {
namespace {

constexpr int kThreads = 256;
constexpr Index kMostBlocks = 4096;

template <class T>
__global__ void first_kernel(const T* __restrict__ values, Index count, unsigned long long* first) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    if (!isfinite(values[i])) {
      atomicMin(first, static_cast<unsigned long long>(i));
      return;
    }
}

// A block to a part at a time.
__global__ void gather_kernel(const std::uint32_t* __restrict__ from, const std::int64_t* __restrict__ begin,
                              const std::int64_t* __restrict__ source, Index parts,
                              std::uint32_t* __restrict__ to) {
  for (Index part = blockIdx.x; part < parts; part += gridDim.x)
    for (Index i = threadIdx.x; i < begin[part + 1] - begin[part]; i += kThreads)
      to[begin[part] + i] = from[source[part] + i];
}

}  // namespace

template <class T>
Index first_non_finite(const T* values, Index count) {
  if (count == 0) return 0;
  DeviceArray<unsigned long long> first =
      DeviceArray<unsigned long long>::from({static_cast<unsigned long long>(count)});
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  first_kernel<<<blocks, kThreads, 0, device().stream>>>(values, count, first.data());
  check(cudaGetLastError());
  return static_cast<Index>(first.to_host()[0]);
}

DeviceArray<std::uint32_t> gather_words(const void* from, const std::vector<DeviceMemory::Part>& parts) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  std::vector<std::int64_t> begin{0}, source;
  for (const DeviceMemory::Part& part : parts) {
    source.push_back(static_cast<std::int64_t>(part.offset / kWord));
    begin.push_back(begin.back() + static_cast<std::int64_t>(part.bytes / kWord));
  }
  DeviceArray<std::uint32_t> out(static_cast<Index>(begin.back()));
  if (out.size() == 0) return out;
  const auto count = static_cast<Index>(parts.size());
  const auto begins = DeviceArray<std::int64_t>::from(begin),
             sources = DeviceArray<std::int64_t>::from(source);
  gather_kernel<<<static_cast<unsigned>(std::min(count, kMostBlocks)), kThreads, 0, device().stream>>>(
      static_cast<const std::uint32_t*>(from), begins.data(), sources.data(), count, out.data());
  check(cudaGetLastError());
  device().wait();
  return out;
}

template Index first_non_finite(const float*, Index);
template Index first_non_finite(const double*, Index);

}  // namespace headlens::cuda
