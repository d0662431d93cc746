// Phi, centred: the features of all training sets as a matrix (n, p) that is computed in blocks whenever it
// is needed. Columns are in the order of the FeatureMap, padding included (columns of zeros).
//
// Sums over rows are taken in fixed tiles of kRowTile rows, sums over columns in fixed chunks, so that
// products do not depend on threads or on `block_sets`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "cpu/design/host_design.hpp"
#include "cpu/features/feature_map.hpp"
#include "cpu/products/block_products.hpp"

namespace headlens::cpu {

template <class T>
class DesignMatrix : public HostDesign {
 public:
  // With source.centre, every column has its mean subtracted. source.block_sets is rounded up to whole row
  // tiles.
  DesignMatrix(std::unique_ptr<const FeatureMap<T>> map, const backend::FeatureSource& source,
               const backend::Context& context);

  Index rows() const override { return sets_.count(); }
  Index columns() const override { return map_->columns(); }
  Precision precision() const override { return sizeof(T) == 4 ? Precision::f32 : Precision::f64; }
  Whole whole() const override { return sets_.whole(); }
  const std::vector<double>& means() override;
  void hold() override;

  Matrix<double> forward(MatrixView<const double> v, std::string_view phase) override;
  Matrix<double> adjoint(MatrixView<const double> r, std::string_view phase) override;
  Matrix<double> outer_product(MatrixView<const double> r, std::string_view phase) override;
  Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                               const std::vector<double>& weights) override;
  double mean_square_row() override;
  backend::Residuals check(MatrixView<const double> values, MatrixView<const double> targets) override;

  std::unique_ptr<backend::Gram> gram(const backend::GramRequest& request) override;
  std::unique_ptr<backend::Factor> preconditioner(double shift) override;

  std::vector<Index> head_of_column() const override { return backend::heads_of_columns(*map_); }
  Matrix<double> stored(MatrixView<const double> values) const override {
    return backend::in_stored_order(*map_, values);
  }
  std::vector<double> stored_means() override { return backend::in_stored_order(*map_, means()); }

  // visit(first row, rows (r, p)), in order; r is block_sets but for the last. `from`: the first row of a
  // block.
  void for_row_blocks(std::string_view phase, const std::function<void(Index, MatrixView<const T>)>& visit,
                      Index from = 0);
  // The same, with sums over rows that survive a kill (Execution::checkpoint).
  void for_row_blocks_with(std::vector<std::span<std::byte>> sums, const std::string& what,
                           const std::function<void(Index, MatrixView<const T>)>& visit);
  // visit(first column, columns (n, c)), in order.
  void for_column_chunks(std::string_view phase,
                         const std::function<void(Index, MatrixView<const T>)>& visit);
  void for_tiles(std::string_view phase, const TileVisit& visit) override;
  void for_float_blocks(std::string_view phase, const FloatVisit& visit) override;

 protected:
  const FeatureMap<T>& map() const { return *map_; }

 private:
  Index chunk_blocks() const;
  void set_means(ColumnMeans<T>& from);
  // visit(first row, rows), not centred.
  void for_raw_rows(std::string_view phase, const std::function<void(Index, MatrixView<T>)>& visit,
                    Index from = 0);
  Matrix<double> outer_gram();
  Matrix<double> inner_gram();

  std::unique_ptr<const FeatureMap<T>> map_;
  const Sets& sets_;
  bool centre_;
  Index block_sets_;
  std::vector<double> means_;
  std::vector<double> keep_;  // 0 for columns that do not vary: what centring leaves of them is rounding
  Matrix<T> held_;
};

// Features may be finite and their squares not: Error unless `sum`, a sum of squares, is finite.
void require_finite_squares(double sum, const Sets& sets);

double trace(MatrixView<const double> matrix);

template <class T>
std::span<std::byte> bytes_of(Matrix<T>& a) {
  return std::as_writable_bytes(std::span(a.data(), static_cast<std::size_t>(a.rows() * a.cols())));
}

// What is computed at once: rows, `block_sets` of them (0: chosen) rounded up to whole tiles, or columns.
Index rows_of_block(Index block_sets, Index columns);
Index columns_of_chunk(Index block_columns);
Index default_block_sets(Index columns);

}  // namespace headlens::cpu
