#include "fit/design_matrix.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "fit/block_products.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kChunkColumns = 2048;
constexpr Index kShare = 64;  // rows handed to a thread at a time where rows are independent

Index blocks_in_chunk(Index block_columns) { return std::max<Index>(1, kChunkColumns / block_columns); }

template <class T>
void subtract_means(MatrixView<T> rows, const double* means, const double* keep, int threads) {
  parallel_for(threads, tile_count(rows.rows, kShare), [&](Index tile, int) {
    for (Index i = tile * kShare; i < std::min(rows.rows, (tile + 1) * kShare); ++i)
      for (Index j = 0; j < rows.cols; ++j) rows(i, j) = static_cast<T>((rows(i, j) - means[j]) * keep[j]);
  });
}

}  // namespace

Index default_block_sets(Index columns) {
  // About 2^25 features at once: large enough for BLAS, small beside any Gram matrix worth having.
  const Index wanted = (Index{1} << 25) / std::max<Index>(1, columns);
  return std::clamp<Index>(wanted / kRowTile * kRowTile, kRowTile, 8 * kRowTile);
}

template <class T>
DesignMatrix<T>::DesignMatrix(const FeatureMap<T>& map, const Sets& sets, bool centre, Index block_sets,
                              const Execution& execution)
    : map_(map),
      sets_(sets),
      centre_(centre),
      block_sets_(tile_count(block_sets > 0 ? block_sets : default_block_sets(map.columns()), kRowTile) *
                  kRowTile),
      execution_(execution),
      threads_(thread_count(execution)) {
  if (!centre) means_.assign(static_cast<std::size_t>(columns()), 0.0);
}

template <class T>
Index DesignMatrix<T>::chunk_blocks() const {
  return blocks_in_chunk(map_.block_columns());
}

template <class T>
std::vector<Index> DesignMatrix<T>::used_columns() const {
  const std::vector<Index> head = map_.head_of_column();
  std::vector<Index> out;
  for (Index j = 0; j < columns(); ++j)
    if (head[static_cast<std::size_t>(j)] >= 0) out.push_back(j);
  return out;
}

template <class T>
const std::vector<double>& DesignMatrix<T>::means() {
  if (!means_.empty()) return means_;
  // By rows: a chunk of columns would grow with n.
  ColumnMeans<T> all(columns());
  for_raw_rows("means", [&](Index, MatrixView<T> block) { all.add(block, threads_); });
  set_means(all);
  return means_;
}

template <class T>
void DesignMatrix<T>::cache() {
  if (cached_.rows() > 0) return;
  Matrix<T> all(rows(), columns());
  for (Index first = 0; first < rows(); first += block_sets_) {
    execution_.check_cancelled();
    execution_.report("features", static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    map_.compute(sets_, first, first + count, all.view().block(first, 0, count, columns()), threads_);
  }
  if (centre_) {
    ColumnMeans<T> columns_of(columns());
    columns_of.add(all.view(), threads_);
    set_means(columns_of);
    subtract_means(all.view(), means_.data(), keep_.data(), threads_);
  }
  cached_ = std::move(all);
}

template <class T>
void DesignMatrix<T>::for_row_blocks(std::string_view phase,
                                     const std::function<void(Index, MatrixView<const T>)>& visit) {
  const double* mean = means().data();
  if (cached_.rows() == 0)
    return for_raw_rows(phase, [&](Index first, MatrixView<T> block) {
      if (centre_) subtract_means(block, mean, keep_.data(), threads_);
      visit(first, block);
    });
  for (Index first = 0; first < rows(); first += block_sets_) {
    execution_.check_cancelled();
    execution_.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    visit(first, std::as_const(cached_).view().block(first, 0, count, columns()));
  }
}

template <class T>
void DesignMatrix<T>::for_raw_rows(std::string_view phase,
                                   const std::function<void(Index, MatrixView<T>)>& visit) {
  Matrix<T> block(std::min(block_sets_, rows()), columns());
  for (Index first = 0; first < rows(); first += block_sets_) {
    execution_.check_cancelled();
    execution_.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    const MatrixView<T> view = block.view().block(0, 0, count, columns());
    map_.compute(sets_, first, first + count, view, threads_);
    visit(first, view);
  }
}

template <class T>
void DesignMatrix<T>::set_means(const ColumnMeans<T>& from) {
  means_.resize(static_cast<std::size_t>(columns()));
  keep_.resize(means_.size());
  from.finish(means_.data(), keep_.data());
}

template <class T>
void DesignMatrix<T>::for_column_chunks(std::string_view phase,
                                        const std::function<void(Index, MatrixView<const T>)>& visit) {
  const bool need_means = means_.empty();
  std::vector<double> means = means_, keep = keep_;
  if (need_means) means.resize(static_cast<std::size_t>(columns())), keep.resize(means.size());
  const Index width = map_.block_columns();
  Matrix<T> buffer;
  if (cached_.rows() == 0) buffer = Matrix<T>(rows(), std::min(chunk_blocks(), map_.blocks()) * width);
  for (Index block = 0; block < map_.blocks(); block += chunk_blocks()) {
    execution_.check_cancelled();
    execution_.report(phase, static_cast<double>(block), static_cast<double>(map_.blocks()));
    const Index last = std::min(map_.blocks(), block + chunk_blocks());
    const Index first_column = block * width, count = (last - block) * width;
    if (cached_.rows() > 0) {
      visit(first_column, std::as_const(cached_).view().block(0, first_column, rows(), count));
      continue;
    }
    const MatrixView<T> view(buffer.data(), rows(), count);
    map_.compute(sets_, 0, rows(), block, last, view, threads_);
    if (need_means) {
      ColumnMeans<T> columns_of(count);
      columns_of.add(view, threads_);
      columns_of.finish(means.data() + first_column, keep.data() + first_column);
    }
    if (centre_) subtract_means(view, means.data() + first_column, keep.data() + first_column, threads_);
    visit(first_column, view);
  }
  means_ = std::move(means);
  keep_ = std::move(keep);
}

template <class T>
Matrix<double> DesignMatrix<T>::forward(MatrixView<const double> v, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(rows(), v.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    add_product<T>(block, v, out.view().block(first, 0, block.rows, v.cols), threads_);
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::adjoint(MatrixView<const double> r, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(columns(), r.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    add_transposed_product<T>(block, r.block(first, 0, block.rows, r.cols), out, threads_);
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::outer_product(MatrixView<const double> r, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(rows(), r.cols);
  for_column_chunks(phase, [&](Index, MatrixView<const T> chunk) {
    Matrix<double> inner = Matrix<double>::zeros(chunk.cols, r.cols);
    add_transposed_product<T>(chunk, r, inner, threads_);
    add_product<T>(chunk, inner, out, threads_);
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::inner_product(MatrixView<const double> v, std::string_view phase,
                                              const std::vector<double>& w) {
  Matrix<double> out = Matrix<double>::zeros(columns(), v.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    Matrix<double> inner = Matrix<double>::zeros(block.rows, v.cols);
    add_product<T>(block, v, inner, threads_);
    for (Index i = 0; !w.empty() && i < block.rows; ++i)
      for (Index c = 0; c < v.cols; ++c) inner(i, c) *= w[static_cast<std::size_t>(first + i)];
    add_transposed_product<T>(block, inner, out, threads_);
  });
  return out;
}

template <class T>
double DesignMatrix<T>::mean_square_row() {
  double sum = 0;
  for_row_blocks("scale", [&](Index, MatrixView<const T> block) {
    for (Index i = 0; i < block.rows; ++i)
      for (Index j = 0; j < block.cols; ++j)
        sum += static_cast<double>(block(i, j)) * static_cast<double>(block(i, j));
  });
  require_finite_squares(sum, sets_);
  return sum / static_cast<double>(rows());
}

void require_finite_squares(double sum, const Sets& sets) {
  require(std::isfinite(sum), sets.name(),
          ": the squares of the features overflow: scale the tokens down (standardise them)");
}

double design_buffer_bytes(Index rows, Index columns, Index block_columns, Index block_sets,
                           double item_bytes) {
  const Index block =
      tile_count(block_sets > 0 ? block_sets : default_block_sets(columns), kRowTile) * kRowTile;
  const double row_block = static_cast<double>(std::min(rows, block)) * static_cast<double>(columns);
  const double chunk = static_cast<double>(rows) *
                       static_cast<double>(std::min(columns, blocks_in_chunk(block_columns) * block_columns));
  return std::max(row_block, chunk) * item_bytes;
}

template class DesignMatrix<float>;
template class DesignMatrix<double>;

}  // namespace headlens
