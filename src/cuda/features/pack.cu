#include <algorithm>

#include "cuda/features/pack.hpp"
#include "data/set_rows.hpp"
#include "headlens/device_memory.hpp"

namespace headlens::cuda {
namespace {

// What sets are read from.
template <class Query, class Key>
struct Source {
  SetLayout layout;
  Index dim = 0, first = 0, count = 0;
  Index first_key = 0;  // row of keys that set `first` begins at, of ragged sets
  const Query* query = nullptr;
  const Key* keys = nullptr;
  const double* table = nullptr;  // of positions, or none

  // Coordinate j of a token, the query first; positions are added to rounded keys, as on the host.
  template <class T>
  __device__ T entry(const SetRows& rows, Index token, Index j) const {
    if (token == 0) return static_cast<T>(query[rows.query * dim + j]);
    const T value = static_cast<T>(keys[rows.key(token - 1) * dim + j]);
    return table ? static_cast<T>(value + table[rows.position(token - 1) * dim + j]) : value;
  }
};

// A block to a set at a time.
template <class T, class From>
__global__ void pack_kernel(From from, const std::int64_t* __restrict__ begin, T* __restrict__ to) {
  const Index width = from.dim + 1;
  for (Index s = blockIdx.x; s < from.count; s += gridDim.x) {
    const Index top = begin[s], items = (begin[s + 1] - top) * width;
    const SetRows rows = from.layout.rows_of(from.first + s, from.first_key + top - s);
    for (Index i = threadIdx.x; i < items; i += blockDim.x) {
      const Index token = i / width, j = i - token * width;
      to[top * width + i] = j == from.dim ? T(1) : from.template entry<T>(rows, token, j);
    }
  }
}

template <class Visit>
void with_address(const Array& array, const Visit& visit) {
  const void* address = array.device()->address();
  array.dtype() == DType::f32 ? visit(static_cast<const float*>(address))
                              : visit(static_cast<const double*>(address));
}

}  // namespace

template <class T>
void pack_on_device(const Sets& sets, Index first, const std::vector<double>& table, Tokens<T>& to) {
  constexpr Index kMostBlocks = 1 << 20, kWarp = 32, kMostThreads = 256;
  const DeviceArray<double> positions = DeviceArray<double>::from(table);
  const Index first_key = sets.offsets().empty() ? 0 : sets.offsets()[static_cast<std::size_t>(first)];
  const Index items = to.rows.size() / to.count;  // of a set, about
  const auto threads =
      static_cast<unsigned>(std::clamp((items + kWarp - 1) / kWarp * kWarp, kWarp, kMostThreads));
  const auto blocks = static_cast<unsigned>(std::min(to.count, kMostBlocks));
  with_address(sets.query(), [&](const auto* query) {
    with_address(keys_array(sets), [&](const auto* keys) {
      const Source from{layout_of(sets), sets.dim(), first, to.count,
                        first_key,       query,      keys,  positions.data()};
      pack_kernel<T><<<blocks, threads, 0, device().stream>>>(from, to.begin.data(), to.rows.data());
    });
  });
  check(cudaGetLastError());
  device().wait();
}

template void pack_on_device(const Sets&, Index, const std::vector<double>&, Tokens<float>&);
template void pack_on_device(const Sets&, Index, const std::vector<double>&, Tokens<double>&);

}  // namespace headlens::cuda
