#include "distributed/cyclic_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>

#include "linalg/multiply.hpp"

namespace headlens::distributed {
namespace {

constexpr Index kSquareTile = 256;

std::vector<Index> cyclic(Index n, Index block, Index place, Index places) {
  std::vector<Index> out;
  for (Index first = place * block; first < n; first += places * block)
    for (Index i = first; i < std::min(n, first + block); ++i) out.push_back(i);
  return out;
}

Matrix<double> pick(MatrixView<const double> x, const std::vector<Index>& rows) {
  Matrix<double> out(std::ssize(rows), x.cols);
  for (Index i = 0; i < out.rows(); ++i)
    std::copy_n(x.row(rows[static_cast<std::size_t>(i)]), x.cols, out.view().row(i));
  return out;
}

// Parts of rows that several ranks have are added.
Matrix<double> spread(const Matrix<double>& part, const std::vector<Index>& rows, Index n,
                      comm::Communicator& ranks) {
  Matrix<double> out = Matrix<double>::zeros(n, part.cols());
  for (Index i = 0; i < part.rows(); ++i)
    std::copy_n(part.view().row(i), part.cols(), out.view().row(rows[static_cast<std::size_t>(i)]));
  ranks.sum({out.data(), static_cast<std::size_t>(n * part.cols())});
  return out;
}

}  // namespace

CyclicMatrix CyclicMatrix::copy() const {
  CyclicMatrix out{n, rows, columns, Array(DType::f64, local.shape())};
  std::memcpy(out.local.raw(), local.raw(), local.bytes());
  return out;
}

std::vector<std::vector<Index>> all_indices(Index n, comm::Communicator& ranks) {
  const comm::GridPlace own = ranks.grid().place(n);
  const std::array<std::int64_t, 2> mine{own.row, own.column};
  const std::vector<std::int64_t> places = comm::gather(ranks, std::span<const std::int64_t>(mine));
  std::vector<std::vector<Index>> out;
  for (std::size_t r = 0; r < places.size(); r += 2) {
    const std::vector<Index> rows = cyclic(n, own.block, places[r], own.rows),
                             columns = cyclic(n, own.block, places[r + 1], own.columns);
    std::set_union(rows.begin(), rows.end(), columns.begin(), columns.end(),
                   std::back_inserter(out.emplace_back()));
  }
  return out;
}

CyclicMatrix cyclic_layout(Index n, comm::Communicator& ranks) {
  const comm::GridPlace place = ranks.grid().place(n);
  return {n,
          cyclic(n, place.block, place.row, place.rows),
          cyclic(n, place.block, place.column, place.columns),
          {}};
}

Matrix<double> multiply(const CyclicMatrix& a, MatrixView<const double> x, int threads,
                        comm::Communicator& ranks) {
  Matrix<double> part(std::ssize(a.rows), x.cols);
  headlens::multiply(Trans::yes, Trans::no, 1.0, a.view(), pick(x, a.columns), 0.0, part, threads);
  return spread(part, a.rows, a.n, ranks);
}

Matrix<double> multiply_transposed(const CyclicMatrix& a, MatrixView<const double> x, int threads,
                                   comm::Communicator& ranks) {
  Matrix<double> part(std::ssize(a.columns), x.cols);
  headlens::multiply(Trans::no, Trans::no, 1.0, a.view(), pick(x, a.rows), 0.0, part, threads);
  return spread(part, a.columns, a.n, ranks);
}

Matrix<double> square_sums(const CyclicMatrix& a, MatrixView<const double> w, int threads,
                           comm::Communicator& ranks) {
  const Matrix<double> weights = pick(w, a.columns);
  const MatrixView<const double> all = a.view();
  Matrix<double> part = Matrix<double>::zeros(std::ssize(a.rows), w.cols);
  for (Index first = 0; first < all.rows; first += kSquareTile) {
    Matrix<double> squares(std::min(kSquareTile, all.rows - first), all.cols);
    for (Index j = 0; j < squares.rows(); ++j)
      for (Index i = 0; i < all.cols; ++i) squares(j, i) = all(first + j, i) * all(first + j, i);
    headlens::multiply(Trans::yes, Trans::no, 1.0, squares,
                       weights.view().block(first, 0, squares.rows(), w.cols), 1.0, part, threads);
  }
  return spread(part, a.rows, a.n, ranks);
}

std::vector<double> diagonal(const CyclicMatrix& a, comm::Communicator& ranks) {
  std::vector<double> out(static_cast<std::size_t>(a.n), 0.0);
  std::size_t j = 0;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    while (j < a.columns.size() && a.columns[j] < a.rows[i]) ++j;
    if (j < a.columns.size() && a.columns[j] == a.rows[i])
      out[static_cast<std::size_t>(a.rows[i])] = a.view()(static_cast<Index>(j), static_cast<Index>(i));
  }
  ranks.sum(out);
  return out;
}

std::vector<double> row_sums(const CyclicMatrix& a, comm::Communicator& ranks) {
  std::vector<double> out(static_cast<std::size_t>(a.n), 0.0);
  const MatrixView<const double> all = a.view();
  for (Index j = 0; j < all.rows; ++j)
    for (Index i = 0; i < all.cols; ++i)
      out[static_cast<std::size_t>(a.rows[static_cast<std::size_t>(i)])] += all(j, i);
  ranks.sum(out);
  return out;
}

std::vector<double> centre(CyclicMatrix& a, comm::Communicator& ranks) {
  std::vector<double> means = row_sums(a, ranks);
  for (double& mean : means) mean /= static_cast<double>(a.n);
  const double all = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(a.n);
  const MatrixView<double> view = a.view();
  for (Index j = 0; j < view.rows; ++j) {
    const double column = means[static_cast<std::size_t>(a.columns[static_cast<std::size_t>(j)])] - all;
    for (Index i = 0; i < view.cols; ++i)
      view(j, i) -= means[static_cast<std::size_t>(a.rows[static_cast<std::size_t>(i)])] + column;
  }
  return means;
}

void add_to_all(CyclicMatrix& a, double value) {
  const MatrixView<double> view = a.view();
  for (Index j = 0; j < view.rows; ++j)
    for (Index i = 0; i < view.cols; ++i) view(j, i) += value;
}

}  // namespace headlens::distributed
