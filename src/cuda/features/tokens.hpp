// Sets on the device: tokens xt = [x; 1] as rows, the query of a set first and its keys after it. So a set
// of mlp is one row of (N + 1) D inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/device.hpp"
#include "headlens/sets.hpp"

namespace headlens::cuda {

template <class T>
struct Tokens {
  Index count = 0;                  // sets
  Index width = 0;                  // D
  Index max_keys = 0;               // of these sets and all that they are a part of: it chooses the kernel
  DeviceArray<T> rows;              // (sum of N + 1, D)
  DeviceArray<std::int64_t> begin;  // (count + 1): set s owns the rows begin[s] to begin[s + 1]
};

// The sets [first, last), rounded to T; positions from `table` (features/positions.hpp) are added to keys.
// Sets in main memory are packed by `threads` threads while those before them travel; sets on the device,
// there.
template <class T>
Tokens<T> pack_tokens(const Sets& sets, Index first, Index last, const std::vector<double>& table,
                      int threads);

double token_bytes(const Sets& sets, std::size_t item);

}  // namespace headlens::cuda
