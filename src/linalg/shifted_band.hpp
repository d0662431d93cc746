// Cholesky factorisation of a shifted band matrix, B + s I = L L^T, and what it gives for many rows at once.
//
// L is block bidiagonal. With D_k the inverse of its k-th diagonal block and E_k = D_k L[k, k-1], the row
// vector y = z L^-T has the blocks y_k = z_k D_k^T - y_{k-1} E_k^T: two small products per block, which run
// several times as fast as triangular solves.  Factor: 4 n b^2 flops; each row: 4 n b.
//
// Vectors are rows here, as in BandReduction: to_band_basis(rows), then these. The forward error of a row is
// at most c b eps times the condition number of L, the square root of that of B + s I.
#pragma once

#include <vector>

#include "linalg/band.hpp"
#include "linalg/cholesky.hpp"

namespace headlens {

template <class T>
class ShiftedBand {
 public:
  ShiftedBand(const BandReduction<T>& band, T shift);

  const CholeskyResult& result() const { return result_; }  // the functions below need an ok one
  Index size() const { return size_; }

  // rows = rows (B + s I)^-1
  void solve(MatrixView<T> rows, int threads) const;
  // out[i] = z_i^T (B + s I)^-1 z_i for the rows z_i, which are only read.
  void quadratic_forms(MatrixView<const T> rows, T* out, int threads) const;

 private:
  struct Block {
    Matrix<T> inverse_t;  // D_k^T
    Matrix<T> carry_t;    // E_k^T
    Matrix<T> coupling;   // L[k, k-1]
  };

  void step(Index k, MatrixView<const T> z, MatrixView<const T> before, MatrixView<T> y) const;
  void forward(MatrixView<T> rows, MatrixView<T> scratch) const;
  void backward(MatrixView<T> rows, MatrixView<T> scratch) const;
  void add_norms(MatrixView<const T> rows, T* out) const;
  void check(Index cols) const;

  Index size_ = 0;
  CholeskyResult result_;
  std::vector<Block> blocks_;
};

}  // namespace headlens
