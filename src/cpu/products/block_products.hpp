// Products of a block of features with a few columns, in fixed tiles, always summed in double.
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

// out (r, q) += a (r, c) b (c, q)
template <class T>
void add_product(MatrixView<const T> a, MatrixView<const double> b, MatrixView<double> out, int threads);

// out (c, q) += a (r, c)^T b (r, q)
template <class T>
void add_transposed_product(MatrixView<const T> a, MatrixView<const double> b, MatrixView<double> out,
                            int threads);

// The mean of every column, and keep = 0 for columns that are constant up to the rounding of T, 1 for the
// others. Rows may come in several blocks; how they are cut does not matter.
template <class T>
class ColumnMeans {
 public:
  explicit ColumnMeans(Index columns);
  void add(MatrixView<const T> rows, int threads);
  void merge(comm::Communicator& ranks);  // with the rows of all ranks
  void finish(double* means, double* keep) const;

 private:
  std::vector<double> sums_;
  std::vector<T> low_, high_;
  Index rows_ = 0;
};

}  // namespace headlens::cpu
