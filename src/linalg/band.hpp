// Reduction of a symmetric matrix to a narrow band by orthogonal transforms:  A = Q B Q^T.
//
// For what must be done for many shifts of one matrix. With z = Q^T x,
//
//   x^T (A + s I)^-1 x = z^T (B + s I)^-1 z,
//
// and the right side costs O(n b) for each x and s (shifted_band.hpp). An eigendecomposition would make that
// O(n) but costs more to get and does not spread over threads. Measured on one thread, for the diagonal of
// the inverse at 30 shifts: 0.9 s at n = 2000 and 6 s at n = 4000, against 1.1 s and 11 s for dsyevd alone.
//
// B is block tridiagonal with square blocks of b = kBandWidth (the last one smaller). Each panel of b columns
// is reduced by QR below its diagonal block; with the reflectors I - V T V^T and W = A V, the rest becomes A
// - X V^T - V X^T, X = W T - V (T^T V^T W T) / 2.  4/3 n^3 flops, nearly all in products. V stays below the
// band in the array of A. (Dongarra, Sorensen, Hammarling 1989; Bischof, Lang, Sun 2000.)
#pragma once

#include <functional>
#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

// Measured at n = 2000: 64 reduces no faster and makes every shift 1.6 times as dear.
inline constexpr Index kBandWidth = 32;

template <class T>
class BandReduction {
 public:
  // a: n x n, lower triangle valid. progress(fraction of the work done) is called on this thread and may
  // throw.
  static BandReduction reduce(Matrix<T> a, int threads, const std::function<void(double)>& progress = {});

  Index size() const { return reflectors_.rows(); }

  // rows = rows Q: each row x becomes Q^T x.  2 n^2 flops per row; threads share blocks of 256 rows.
  void to_band_basis(MatrixView<T> rows, int threads) const;
  // rows = rows Q^T
  void from_band_basis(MatrixView<T> rows, int threads) const;
  // Q itself, whose row i is the unit vector e_i in the band basis.  4/3 n^3 flops.
  Matrix<T> basis(int threads) const;

  // The blocks of B: diagonal(k) is B[k, k], lower triangle valid; coupling(k) is B[k, k-1], k >= 1.
  Index block_count() const { return (size() + kBandWidth - 1) / kBandWidth; }
  MatrixView<const T> diagonal(Index k) const;
  MatrixView<const T> coupling(Index k) const;

 private:
  // Some panels joined into one reflector of the coordinates from `begin` on. V is reflectors_[begin..,
  // column..].
  struct Reflector {
    Index begin = 0;
    Index column = 0;
    Matrix<T> t;
  };

  MatrixView<const T> v(const Reflector& reflector) const;
  Reflector join_panels(Index first, const std::vector<Matrix<T>>& t);

  Matrix<T> reflectors_;
  Matrix<T> band_;  // n x 2b: block row k is [coupling(k), diagonal(k)]
  std::vector<Reflector> q_;
};

}  // namespace headlens
