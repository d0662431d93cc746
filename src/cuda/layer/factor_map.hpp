// The layer in its factors on the device, for a fixed set of examples: the twin of cpu/layer/factor_map.hpp,
// which has the equations. One product by cuBLAS between X and all parameters, one kernel for the attention
// of all heads.
#pragma once

#include "backend/factors.hpp"
#include "cuda/layer/attention.hpp"
#include "cuda/layer/device_matrix.hpp"
#include "cuda/layer/positions.hpp"

namespace headlens::cuda {

// The entries of a direction that a layer with biases fixes: backend::pin() on the device.
class FixedEntries {
 public:
  explicit FixedEntries(const backend::HeadRanks& ranks) : any_(ranks.biased), free_(ranks.logit_columns()) {}
  template <class T>
  void pin(MatrixView<T> direction) const {
    if (any_) pin_directions(direction.rows, direction.cols, free_, direction.data);
  }

 private:
  bool any_;
  Index free_;  // columns whose last row is not fixed
};

template <class T>
class FactorMap {
 public:
  // x: (n k, d) on the device, kept as a view. lengths: tokens of every example; empty where all have k.
  FactorMap(MatrixView<const T> x, Index tokens, const backend::HeadRanks& ranks,
            const std::vector<Index>& lengths, Digits digits = Digits::all);
  // Other examples have taken the place of those in x.
  void set_lengths(const std::vector<Index>& lengths);

  Index rows() const { return x_.rows; }
  DeviceMatrix<T> make_activations() const { return {rows(), shape_.parameter_columns}; }
  DeviceMatrix<T> make_attention() const { return {rows(), shape_.heads * shape_.tokens}; }
  DeviceMatrix<T> make_phi() const { return {rows(), shape_.value_columns}; }

  void evaluate(MatrixView<const T> parameters, DeviceMatrix<T>& z, DeviceMatrix<T>& p,
                DeviceMatrix<T>& phi) const;
  void derivative(const T* z, const T* p, MatrixView<const T> dparameters, DeviceMatrix<T>& dphi) const;
  // Zero where the factors of a layer with biases are fixed.
  void adjoint(const T* z, const T* p, const DeviceMatrix<T>& g, MatrixView<T> dparameters) const;

 private:
  MatrixView<const T> x_;
  DeviceArray<backend::HeadColumns> columns_;
  DeviceArray<Index> lengths_;
  AttentionShape shape_;
  FixedEntries fixed_;
  Positions<T> positions_;
  Digits digits_;
};

// Error if the device has no kernel for so many tokens.
void require_tokens(Index tokens);

}  // namespace headlens::cuda
