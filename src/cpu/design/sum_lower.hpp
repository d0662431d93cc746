// The lower triangle of a matrix, summed over all ranks: n (n + 1) / 2 numbers go over the wire, some rows at
// a time, so that the buffer stays small beside the matrix.
#pragma once

#include <algorithm>
#include <vector>

#include "comm/communicator.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
void sum_lower(comm::Communicator& ranks, MatrixView<T> a) {
  constexpr Index kItems = Index{1} << 22;
  if (ranks.alone()) return;
  std::vector<T> buffer;
  for (Index first = 0, last = 0; first < a.rows; first = last) {
    buffer.clear();
    for (; last < a.rows && std::ssize(buffer) < kItems; ++last)
      buffer.insert(buffer.end(), a.row(last), a.row(last) + last + 1);
    ranks.sum(std::span<T>(buffer));
    const T* next = buffer.data();
    for (Index i = first; i < last; next += ++i) std::copy_n(next, i + 1, a.row(i));
  }
}

}  // namespace headlens::cpu
