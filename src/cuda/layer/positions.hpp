// Rotary positions on the device: pairs of columns of queries and keys turn by the angles of their tokens.
#pragma once

#include "backend/factors.hpp"
#include "cuda/layer/device_matrix.hpp"
#include "cuda/layer/variant_kernels.hpp"

namespace headlens::cuda {

template <class T>
class Positions {
 public:
  // Nothing turns where the ranks have no rotary positions.
  Positions(const backend::HeadRanks& ranks, Index tokens);
  // z: rows of whole examples, Z or a direction of it. sign -1: back.
  void turn(DeviceMatrix<T>& z, int sign) const;

 private:
  TurnedPairs shape_;
  DeviceArray<T> cosine_, sine_;  // (k, pairs)
};

}  // namespace headlens::cuda
