// A symmetric matrix in the block-cyclic layout of a grid: this rank has the entries (i, j) with i among its
// rows I and j among its columns J. Vectors (n, q) are whole on every rank.
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "headlens/array.hpp"
#include "linalg/matrix.hpp"

namespace headlens::distributed {

struct CyclicMatrix {
  Index n = 0;
  std::vector<Index> rows, columns;  // I, J, increasing
  Array local;  // (|J|, |I|): entry (i, j) at [j][i], which is by columns as ScaLAPACK has it

  double* data() { return local.data<double>(); }
  MatrixView<double> view() { return {data(), std::ssize(columns), std::ssize(rows)}; }
  MatrixView<const double> view() const {
    return {local.data<double>(), std::ssize(columns), std::ssize(rows)};
  }
  CyclicMatrix copy() const;
};

// The layout of an n x n matrix, without entries.
CyclicMatrix cyclic_layout(Index n, comm::Communicator& ranks);
// Of every rank: its rows and its columns, in one increasing list.
std::vector<std::vector<Index>> all_indices(Index n, comm::Communicator& ranks);

// A x, from all entries.
Matrix<double> multiply(const CyclicMatrix& a, MatrixView<const double> x, int threads,
                        comm::Communicator& ranks);
// A^T x: for eigenvectors, which are no symmetric matrix.
Matrix<double> multiply_transposed(const CyclicMatrix& a, MatrixView<const double> x, int threads,
                                   comm::Communicator& ranks);
// Of every row i: sum_j A_ij^2 w_jk, (n, k).
Matrix<double> square_sums(const CyclicMatrix& a, MatrixView<const double> w, int threads,
                           comm::Communicator& ranks);

std::vector<double> diagonal(const CyclicMatrix& a, comm::Communicator& ranks);
std::vector<double> row_sums(const CyclicMatrix& a, comm::Communicator& ranks);

// Replaces K by H K H, H = I - 1 1^T / n; the means of the columns of K.
std::vector<double> centre(CyclicMatrix& a, comm::Communicator& ranks);
void add_to_all(CyclicMatrix& a, double value);

}  // namespace headlens::distributed
