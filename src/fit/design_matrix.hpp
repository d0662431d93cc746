// Phi, centred: the features of all training sets as a matrix (n, p) that is computed in blocks whenever it
// is needed. Columns are in the order of the FeatureMap, padding included (columns of zeros).
//
// Sums over rows are taken in fixed tiles of kRowTile rows, sums over columns in fixed chunks, so that
// products do not depend on threads or on `block_sets`.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "features/feature_map.hpp"
#include "fit/block_products.hpp"
#include "headlens/execution.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

constexpr Index kRowTile = 1024;

template <class T>
class DesignMatrix {
 public:
  // With `centre`, every column has its mean subtracted. `block_sets` is rounded up to whole row tiles.
  DesignMatrix(const FeatureMap<T>& map, const Sets& sets, bool centre, Index block_sets,
               const Execution& execution);

  Index rows() const { return sets_.count(); }
  Index columns() const { return map_.columns(); }
  const Sets& sets() const { return sets_; }
  std::vector<Index> used_columns() const;  // all but padding
  const std::vector<double>& means();       // zeros without centring

  // Keeps the whole matrix from now on; the caller has seen to it that it fits.
  void cache();

  // visit(first row, rows (r, p)), in order; r is block_sets but for the last.
  void for_row_blocks(std::string_view phase, const std::function<void(Index, MatrixView<const T>)>& visit);
  // visit(first column, columns (n, c)), in order.
  void for_column_chunks(std::string_view phase,
                         const std::function<void(Index, MatrixView<const T>)>& visit);

  Matrix<double> forward(MatrixView<const double> v, std::string_view phase);  // Phi V, (n, q)
  Matrix<double> adjoint(MatrixView<const double> r, std::string_view phase);  // Phi^T R, (p, q)
  // One pass each, for conjugate gradients.
  Matrix<double> outer_product(MatrixView<const double> r, std::string_view phase);  // Phi Phi^T R
  // Phi^T diag(w) Phi V; no weights: all one.
  Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                               const std::vector<double>& w = {});

  double mean_square_row();  // trace(Phi Phi^T) / n; Error if it overflows

  int threads() const { return threads_; }

 private:
  Index chunk_blocks() const;
  void set_means(const ColumnMeans<T>& from);
  // visit(first row, rows), not centred.
  void for_raw_rows(std::string_view phase, const std::function<void(Index, MatrixView<T>)>& visit);

  const FeatureMap<T>& map_;
  const Sets& sets_;
  bool centre_;
  Index block_sets_;
  const Execution& execution_;
  int threads_;
  std::vector<double> means_;
  std::vector<double> keep_;  // 0 for columns that do not vary: what centring leaves of them is rounding
  Matrix<T> cached_;
};

// Features may be finite and their squares not: Error unless `sum`, a sum of squares, is finite.
void require_finite_squares(double sum, const Sets& sets);

// What the working buffers of a DesignMatrix take, beside the cache.
double design_buffer_bytes(Index rows, Index columns, Index block_columns, Index block_sets,
                           double item_bytes);

Index default_block_sets(Index columns);

}  // namespace headlens
