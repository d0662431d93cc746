#include "cpu/design/float_system.hpp"

#include <algorithm>
#include <numeric>

#include "cpu/design/design_matrix.hpp"
#include "cpu/design/sum_lower.hpp"
#include "cpu/products/rounded_gram.hpp"

namespace headlens::cpu {
namespace {

std::vector<Index> all_below(Index count) {
  std::vector<Index> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), Index{0});
  return out;
}

std::vector<Index> used_columns(const backend::Design& design) {
  const std::vector<Index> head = design.head_of_column();
  std::vector<Index> out;
  for (Index j = 0; j < design.columns(); ++j)
    if (head[static_cast<std::size_t>(j)] >= 0) out.push_back(j);
  return out;
}

template <class T>
FloatSystem dual_system(DesignMatrix<T>& design, const backend::GramRequest& request) {
  const Index n = design.rows();
  const MatrixView<const double> y = request.targets;
  FloatSystem out{request.side, n, all_below(n), Matrix<float>::zeros(n, n), {}, {}};
  if (y.cols > 0) out.rhs = pick_transposed(y, out.unknowns);
  out.left_out = Matrix<float>::zeros(std::ssize(request.left_out), n);
  Matrix<float> buffer;
  design.for_column_chunks("gram", [&](Index, MatrixView<const T> chunk) {
    add_rounded_outer(in_float(chunk, buffer), out.gram, design.threads());
  });
  for (std::size_t k = 0; k < request.left_out.size(); ++k)
    out.left_out(static_cast<Index>(k), request.left_out[k]) = 1;
  return out;
}

// One pass over the features for all three.
template <class T>
FloatSystem primal_system(DesignMatrix<T>& design, const backend::GramRequest& request) {
  const std::vector<Index> columns = used_columns(design);
  const std::vector<Index>& examples = request.left_out;
  const MatrixView<const double> y = request.targets;
  const Index p = std::ssize(columns);
  const Whole whole = design.whole();
  FloatSystem out{request.side, whole.count, columns, Matrix<float>::zeros(p, p), {}, {}};
  out.left_out = Matrix<float>::zeros(std::ssize(examples), p);  // what other ranks have stays zero
  Matrix<double> rhs = Matrix<double>::zeros(design.columns(), y.cols);
  Matrix<float> buffer;
  const std::vector<std::span<std::byte>> sums{bytes_of(out.gram), bytes_of(out.left_out), bytes_of(rhs)};
  design.for_row_blocks_with(sums, "gram-f32", [&](Index first, MatrixView<const T> block) {
    auto next = static_cast<std::size_t>(
        std::lower_bound(examples.begin(), examples.end(), whole.first + first) - examples.begin());
    if (y.cols > 0)
      add_transposed_product<T>(block, y.block(first, 0, block.rows, y.cols), rhs, design.threads());
    for (Index i = 0; i < block.rows; i += kRowTile) {
      const Index rows = std::min(kRowTile, block.rows - i);
      const MatrixView<const float> tile = in_float(block.block(i, 0, rows, block.cols), buffer);
      add_rounded_inner(tile, columns, out.gram, design.threads());
      for (; next < examples.size() && examples[next] - whole.first < first + i + rows; ++next)
        for (Index j = 0; j < p; ++j)
          out.left_out(static_cast<Index>(next), j) =
              tile(examples[next] - whole.first - first - i, columns[static_cast<std::size_t>(j)]);
    }
  });
  comm::Communicator& ranks = design.context().ranks;
  sum_lower<float>(ranks, out.gram);
  ranks.sum({out.left_out.data(), static_cast<std::size_t>(out.left_out.rows() * p)});
  ranks.sum({rhs.data(), static_cast<std::size_t>(rhs.rows() * rhs.cols())});
  if (y.cols > 0) out.rhs = pick_transposed(rhs, columns);
  return out;
}

}  // namespace

template <class T>
FloatSystem make_float_system(DesignMatrix<T>& design, const backend::GramRequest& request) {
  return request.side == backend::Side::dual ? dual_system(design, request) : primal_system(design, request);
}

Matrix<float> pick_transposed(MatrixView<const double> a, const std::vector<Index>& unknowns) {
  Matrix<float> out(a.cols, std::ssize(unknowns));
  for (Index i = 0; i < out.cols(); ++i)
    for (Index j = 0; j < a.cols; ++j)
      out(j, i) = static_cast<float>(a(unknowns[static_cast<std::size_t>(i)], j));
  return out;
}

template <class T>
void put_transposed(MatrixView<const float> a, const std::vector<Index>& unknowns, MatrixView<T> out) {
  for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, T(0));
  for (Index i = 0; i < a.cols; ++i)
    for (Index j = 0; j < a.rows; ++j)
      out(unknowns[static_cast<std::size_t>(i)], j) = static_cast<T>(a(j, i));
}

MatrixView<const float> in_float(MatrixView<const float> a, Matrix<float>&) { return a; }
MatrixView<const float> in_float(MatrixView<const double> a, Matrix<float>& buffer) {
  if (buffer.rows() * buffer.cols() < a.rows * a.cols) buffer = Matrix<float>(a.rows, a.cols);
  const MatrixView<float> out(buffer.data(), a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = static_cast<float>(a(i, j));
  return out;
}

template FloatSystem make_float_system(DesignMatrix<float>&, const backend::GramRequest&);
template FloatSystem make_float_system(DesignMatrix<double>&, const backend::GramRequest&);
template void put_transposed(MatrixView<const float>, const std::vector<Index>&, MatrixView<float>);
template void put_transposed(MatrixView<const float>, const std::vector<Index>&, MatrixView<double>);

}  // namespace headlens::cpu
