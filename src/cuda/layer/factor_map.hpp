// The layer in its factors on the device, for a fixed set of examples: the twin of cpu/layer/factor_map.hpp,
// which has the equations. One product by cuBLAS between X and all parameters, one kernel for the attention
// of all heads.
#pragma once

#include "backend/factors.hpp"
#include "cuda/layer/attention.hpp"
#include "cuda/layer/device_matrix.hpp"

namespace headlens::cuda {

template <class T>
class FactorMap {
 public:
  // x: (n k, d) on the device, kept as a view.
  FactorMap(MatrixView<const T> x, Index tokens, const backend::HeadRanks& ranks,
            Digits digits = Digits::all);

  Index rows() const { return x_.rows; }
  DeviceMatrix<T> make_activations() const { return {rows(), shape_.parameter_columns}; }
  DeviceMatrix<T> make_attention() const { return {rows(), shape_.heads * shape_.tokens}; }
  DeviceMatrix<T> make_phi() const { return {rows(), shape_.value_columns}; }

  void evaluate(MatrixView<const T> parameters, DeviceMatrix<T>& z, DeviceMatrix<T>& p,
                DeviceMatrix<T>& phi) const;
  void derivative(const T* z, const T* p, MatrixView<const T> dparameters, DeviceMatrix<T>& dphi) const;
  void adjoint(const T* z, const T* p, const DeviceMatrix<T>& g, MatrixView<T> dparameters) const;

 private:
  MatrixView<const T> x_;
  DeviceArray<backend::HeadColumns> columns_;
  AttentionShape shape_;
  Digits digits_;
};

// Error if the device has no kernel for so many tokens.
void require_tokens(Index tokens);

}  // namespace headlens::cuda
