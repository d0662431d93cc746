// A matrix summed over all ranks, in place.
#pragma once

#include <algorithm>
#include <utility>

#include "comm/communicator.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
void sum_over(comm::Communicator& ranks, MatrixView<T> a) {
  if (ranks.alone()) return;
  if (a.stride == a.cols) return ranks.sum(std::span<T>(a.data, static_cast<std::size_t>(a.rows * a.cols)));
  Matrix<T> packed(a.rows, a.cols);
  copy_rows(MatrixView<const T>(a), packed.view());
  sum_over(ranks, packed.view());
  copy_rows(std::as_const(packed).view(), a);
}

}  // namespace headlens::cpu
