#include "cpu/design/design_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "cpu/design/exact_gram.hpp"
#include "cpu/design/float_gram.hpp"
#include "cpu/design/sum_lower.hpp"
#include "headlens/error.hpp"
#include "io/checkpoint.hpp"
#include "linalg/gram.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
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

Index rows_of_block(Index block_sets, Index columns) {
  return tile_count(block_sets > 0 ? block_sets : default_block_sets(columns), kRowTile) * kRowTile;
}

Index columns_of_chunk(Index block_columns) { return blocks_in_chunk(block_columns) * block_columns; }

template <class T>
DesignMatrix<T>::DesignMatrix(std::unique_ptr<const FeatureMap<T>> map, const backend::FeatureSource& source,
                              const backend::Context& context)
    : HostDesign(context),
      map_(std::move(map)),
      sets_(source.sets),
      centre_(source.centre),
      block_sets_(rows_of_block(source.block_sets, map_->columns())) {
  if (!centre_) means_.assign(static_cast<std::size_t>(columns()), 0.0);
}

template <class T>
Index DesignMatrix<T>::chunk_blocks() const {
  return blocks_in_chunk(map_->block_columns());
}

template <class T>
const std::vector<double>& DesignMatrix<T>::means() {
  if (!means_.empty()) return means_;
  // By rows: a chunk of columns would grow with n.
  ColumnMeans<T> all(columns());
  for_raw_rows("means", [&](Index, MatrixView<T> block) { all.add(block, threads()); });
  set_means(all);
  return means_;
}

template <class T>
void DesignMatrix<T>::hold() {
  if (held_.rows() > 0) return;
  Matrix<T> all(rows(), columns());
  for (Index first = 0; first < rows(); first += block_sets_) {
    context_.execution.check_cancelled();
    context_.execution.report("features", static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    map_->compute(sets_, first, first + count, all.view().block(first, 0, count, columns()), threads());
  }
  if (centre_) {
    ColumnMeans<T> columns_of(columns());
    columns_of.add(all.view(), threads());
    set_means(columns_of);
    subtract_means(all.view(), means_.data(), keep_.data(), threads());
  }
  held_ = std::move(all);
}

template <class T>
void DesignMatrix<T>::for_row_blocks(std::string_view phase,
                                     const std::function<void(Index, MatrixView<const T>)>& visit,
                                     Index from) {
  const double* mean = means().data();
  if (held_.rows() == 0)
    return for_raw_rows(
        phase,
        [&](Index first, MatrixView<T> block) {
          if (centre_) subtract_means(block, mean, keep_.data(), threads());
          visit(first, block);
        },
        from);
  for (Index first = from; first < rows(); first += block_sets_) {
    context_.execution.check_cancelled();
    context_.execution.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    visit(first, std::as_const(held_).view().block(first, 0, count, columns()));
  }
}

template <class T>
void DesignMatrix<T>::for_row_blocks_with(std::vector<std::span<std::byte>> sums, const std::string& what,
                                          const std::function<void(Index, MatrixView<const T>)>& visit) {
  const Checkpointing& where = context_.execution.checkpoint;
  means();  // of all ranks, before any of them goes on from another row
  io::Checkpoint kept(where.folder, io::checkpoint_name(context_.ranks.rank(), context_.ranks.size()) + what,
                      join(where.identity, ", rows of ", block_sets_, " sets"), std::move(sums));
  const auto visit_and_keep = [&](Index first, MatrixView<const T> block) {
    visit(first, block);
    kept.reached(first + block.rows);
  };
  for_row_blocks("gram", visit_and_keep, kept.resume());
}

template <class T>
void DesignMatrix<T>::for_raw_rows(std::string_view phase,
                                   const std::function<void(Index, MatrixView<T>)>& visit, Index from) {
  Matrix<T> block(std::min(block_sets_, rows()), columns());
  for (Index first = from; first < rows(); first += block_sets_) {
    context_.execution.check_cancelled();
    context_.execution.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_sets_, rows() - first);
    const MatrixView<T> view = block.view().block(0, 0, count, columns());
    map_->compute(sets_, first, first + count, view, threads());
    visit(first, view);
  }
}

template <class T>
void DesignMatrix<T>::set_means(ColumnMeans<T>& from) {
  from.merge(context_.ranks);
  means_.resize(static_cast<std::size_t>(columns()));
  keep_.resize(means_.size());
  from.finish(means_.data(), keep_.data());
}

template <class T>
void DesignMatrix<T>::for_column_chunks(std::string_view phase,
                                        const std::function<void(Index, MatrixView<const T>)>& visit) {
  if (!context_.ranks.alone()) means();  // of one pass, for all ranks
  const bool need_means = means_.empty();
  std::vector<double> means = means_, keep = keep_;
  if (need_means) means.resize(static_cast<std::size_t>(columns())), keep.resize(means.size());
  const Index width = map_->block_columns();
  Matrix<T> buffer;
  if (held_.rows() == 0) buffer = Matrix<T>(rows(), std::min(chunk_blocks(), map_->blocks()) * width);
  for (Index block = 0; block < map_->blocks(); block += chunk_blocks()) {
    context_.execution.check_cancelled();
    context_.execution.report(phase, static_cast<double>(block), static_cast<double>(map_->blocks()));
    const Index last = std::min(map_->blocks(), block + chunk_blocks());
    const Index first_column = block * width, count = (last - block) * width;
    if (held_.rows() > 0) {
      visit(first_column, std::as_const(held_).view().block(0, first_column, rows(), count));
      continue;
    }
    const MatrixView<T> view(buffer.data(), rows(), count);
    map_->compute(sets_, 0, rows(), block, last, view, threads());
    if (need_means) {
      ColumnMeans<T> columns_of(count);
      columns_of.add(view, threads());
      columns_of.finish(means.data() + first_column, keep.data() + first_column);
    }
    if (centre_) subtract_means(view, means.data() + first_column, keep.data() + first_column, threads());
    visit(first_column, view);
  }
  means_ = std::move(means);
  keep_ = std::move(keep);
}

template <class T>
Matrix<double> DesignMatrix<T>::forward(MatrixView<const double> v, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(rows(), v.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    add_product<T>(block, v, out.view().block(first, 0, block.rows, v.cols), threads());
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::adjoint(MatrixView<const double> r, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(columns(), r.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    add_transposed_product<T>(block, r.block(first, 0, block.rows, r.cols), out, threads());
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::outer_product(MatrixView<const double> r, std::string_view phase) {
  Matrix<double> out = Matrix<double>::zeros(rows(), r.cols);
  for_column_chunks(phase, [&](Index, MatrixView<const T> chunk) {
    Matrix<double> inner = Matrix<double>::zeros(chunk.cols, r.cols);
    add_transposed_product<T>(chunk, r, inner, threads());
    add_product<T>(chunk, inner, out, threads());
  });
  return out;
}

template <class T>
Matrix<double> DesignMatrix<T>::inner_product(MatrixView<const double> v, std::string_view phase,
                                              const std::vector<double>& w) {
  Matrix<double> out = Matrix<double>::zeros(columns(), v.cols);
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    Matrix<double> inner = Matrix<double>::zeros(block.rows, v.cols);
    add_product<T>(block, v, inner, threads());
    for (Index i = 0; !w.empty() && i < block.rows; ++i)
      for (Index c = 0; c < v.cols; ++c) inner(i, c) *= w[static_cast<std::size_t>(first + i)];
    add_transposed_product<T>(block, inner, out, threads());
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

template <class T>
backend::Residuals DesignMatrix<T>::check(MatrixView<const double> values, MatrixView<const double> targets) {
  const Index q = targets.cols;
  backend::Residuals out{0, Matrix<double>::zeros(columns(), q), Matrix<double>::zeros(columns(), q)};
  for_row_blocks("check", [&](Index first, MatrixView<const T> block) {
    const MatrixView<const double> y = targets.block(first, 0, block.rows, q);
    Matrix<double> residual = Matrix<double>::zeros(block.rows, q);
    add_product<T>(block, values, residual, threads());
    for (Index i = 0; i < block.rows; ++i)
      for (Index c = 0; c < q; ++c) {
        residual(i, c) -= y(i, c);
        out.squares += residual(i, c) * residual(i, c);
      }
    add_transposed_product<T>(block, residual, out.gradient, threads());
    add_transposed_product<T>(block, y, out.product, threads());
  });
  return out;
}

// Phi Phi^T, and below Phi^T Phi: lower triangles.
template <class T>
Matrix<double> DesignMatrix<T>::outer_gram() {
  Matrix<double> gram = Matrix<double>::zeros(rows(), rows());
  for_column_chunks("gram", [&](Index, MatrixView<const T> chunk) { add_outer(chunk, gram, threads()); });
  return gram;
}

template <class T>
Matrix<double> DesignMatrix<T>::inner_gram() {
  Matrix<double> gram = Matrix<double>::zeros(columns(), columns());
  for_row_blocks_with({bytes_of(gram)}, "gram", [&](Index, MatrixView<const T> block) {
    // Whole row tiles, so that the sum is the same whatever the block size.
    for (Index i = 0; i < block.rows; i += kRowTile)
      add_inner(block.block(i, 0, std::min(kRowTile, block.rows - i), block.cols), gram, threads());
  });
  return gram;
}

template <class T>
std::unique_ptr<backend::Gram> DesignMatrix<T>::gram(const backend::GramRequest& request) {
  if (request.precision == Precision::f32) return make_float_gram(*this, request);
  const bool dual = request.side == backend::Side::dual;
  Matrix<double> gram = dual ? outer_gram() : inner_gram();
  if (!dual) sum_lower<double>(context_.ranks, gram);
  require_finite_squares(trace(gram), sets_);
  NormalEquations equations{request.side, request.intercept, request.targets};
  if (!dual) equations.design = this;
  if (!dual && request.targets.cols > 0) {
    equations.product = adjoint(request.targets, "gram");
    context_.ranks.sum(
        {equations.product.data(), static_cast<std::size_t>(columns() * request.targets.cols)});
  }
  return std::make_unique<ExactGram>(std::move(gram), std::move(equations), std::numeric_limits<T>::epsilon(),
                                     context_);
}

template <class T>
std::unique_ptr<backend::Factor> DesignMatrix<T>::preconditioner(double) {
  return nullptr;
}

template <class T>
void DesignMatrix<T>::for_tiles(std::string_view phase, const TileVisit& visit) {
  for_row_blocks(phase, [&](Index first, MatrixView<const T> block) {
    for (Index start = 0; start < block.rows; start += kRowTile) {
      Matrix<double> rows(std::min(kRowTile, block.rows - start), block.cols);
      for (Index i = 0; i < rows.rows(); ++i)
        for (Index j = 0; j < block.cols; ++j) rows(i, j) = static_cast<double>(block(start + i, j));
      visit(first + start, rows);
    }
  });
}

template <class T>
void DesignMatrix<T>::for_float_blocks(std::string_view phase, const FloatVisit& visit) {
  Matrix<float> buffer;
  for_row_blocks(phase,
                 [&](Index first, MatrixView<const T> block) { visit(first, in_float(block, buffer)); });
}

double trace(MatrixView<const double> matrix) {
  double sum = 0;
  for (Index i = 0; i < matrix.rows; ++i) sum += matrix(i, i);
  return sum;
}

void require_finite_squares(double sum, const Sets& sets) {
  require(std::isfinite(sum), sets.name(),
          ": the squares of the features overflow: scale the tokens down (standardise them)");
}

template class DesignMatrix<float>;
template class DesignMatrix<double>;

}  // namespace headlens::cpu
